// The tile compiler: requests of kind kTile become object files for the host's x86-64, and those become callable code.
//
// A request names a tile program by `source` ("linear.portable"), the configuration by `parameters`, and the level of
// the instruction set by `target`: x86-64, x86-64-v3 (AVX2, FMA) or x86-64-v4 (AVX-512). Without MLIR in the build
// (TILEWRIGHT_TILE=OFF) the factories answer kUnsupported.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/build_request.h"
#include "base/result.h"

namespace tilewright {

/// identity() is "tile <LLVM version> <hash of the compiler's and the tile programs' sources>".
Result<std::unique_ptr<Compiler>> createTileCompiler();

/// Loads what the tile compiler made, through LLVM's ORC. load() gives kCorrupt for bytes that are no object file or do
/// not match their hash, kUnsupported for code that this CPU cannot run.
Result<std::unique_ptr<HostLoader>> createHostLoader();

/// What a request is on its way to machine code.
enum class TileStage {
  kTile,      ///< the tile program, in the tile dialect
  kLlvm,      ///< LLVM IR, optimized
  kAssembly,  ///< the target's assembly
};

/// The text of a stage; errors as those of Compiler::build.
Result<std::string> emitTileStage(const BuildRequest& request, TileStage stage);

}  // namespace tilewright
