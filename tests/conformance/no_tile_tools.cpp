// For the program that runs where LLVM is not.
#include "tests/conformance/toolchain.h"

namespace tilewright::conformance {

Result<TileTools> openTileTools() {
  return fail(ErrorCode::kUnsupported, "this program has no tile compiler");
}

}  // namespace tilewright::conformance
