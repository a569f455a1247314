// The lowering of tile programs to host code, pass by pass:
//
//   entry point      arguments from 8-byte slots, the program's coordinates as parameters
//   assign buffers   which tiles live in memory, which are computed where they are used; refuses what cannot be lowered
//   vectorize        tiles become buffers on the stack, loops, and 1-D vectors of the target's width
//   expand math      exp, log and narrow floats become arithmetic that every x86-64 has
//
// and then MLIR's own conversions to the LLVM dialect. A tile is never one vector: products run over a micro-tile of
// registers, everything else over one row at a time.
#pragma once

#include <memory>

#include "compiler/tile/lower_cpu/options.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace tilewright::tile {

std::unique_ptr<mlir::Pass> createEntryPointPass();
std::unique_ptr<mlir::Pass> createAssignBuffersPass();
std::unique_ptr<mlir::Pass> createVectorizePass(const CpuOptions& options);
std::unique_ptr<mlir::Pass> createExpandMathPass(const CpuOptions& options);

/// All of the above in order, down to the LLVM dialect.
void buildCpuPipeline(mlir::OpPassManager& manager, const CpuOptions& options);

/// The passes and the pipeline by name, for tilewright-opt.
void registerCpuPasses();

}  // namespace tilewright::tile
