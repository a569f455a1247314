#include "compiler/tile/tile_compiler.h"
#include "tests/conformance/toolchain.h"

namespace tilewright::conformance {

Result<TileTools> openTileTools() {
  TileTools tools;
  tools.compiler = TW_TRY(createTileCompiler());
  tools.loader = TW_TRY(createHostLoader());
  return tools;
}

}  // namespace tilewright::conformance
