// tilewright-opt: reads IR of the tile dialect, runs passes by name, prints the result; for tests and for looking.
//
//   tilewright-opt --tile-cpu-entry-point program.mlir
#include "compiler/tile/dialect/tile.h"
#include "compiler/tile/lower_cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  registry.insert<tilewright::tile::TileDialect, mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect,
                  mlir::func::FuncDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect>();
  tilewright::tile::registerCpuPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "tile dialect optimizer\n", registry));
}
