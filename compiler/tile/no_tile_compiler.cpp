// The tile compiler of a build without MLIR: it says so.
#include "compiler/tile/tile_compiler.h"

namespace tilewright {

namespace {

std::unexpected<Error> leftOut() {
  return fail(ErrorCode::kUnsupported, "this build has no tile compiler: it was configured with TILEWRIGHT_TILE=OFF");
}

}  // namespace

Result<std::unique_ptr<Compiler>> createTileCompiler() {
  return leftOut();
}
Result<std::unique_ptr<HostLoader>> createHostLoader() {
  return leftOut();
}
Result<std::string> emitTileStage(const BuildRequest&, TileStage) {
  return leftOut();
}

}  // namespace tilewright
