// The order of the CPU lowering's passes.
#include "compiler/tile/lower_cpu/passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace tilewright::tile {

void buildCpuPipeline(mlir::OpPassManager& manager, const CpuOptions& options) {
  mlir::OpPassManager& function = manager.nest<mlir::func::FuncOp>();
  function.addPass(mlir::createCSEPass());
  function.addPass(createEntryPointPass());
  function.addPass(createAssignBuffersPass());
  function.addPass(createVectorizePass(options));
  function.addPass(createExpandMathPass(options));
  function.addPass(mlir::createCSEPass());

  manager.addPass(mlir::createSCFToControlFlowPass());
  manager.addPass(mlir::createConvertVectorToLLVMPass());
  manager.addPass(mlir::createConvertMathToLLVMPass());
  manager.addPass(mlir::createArithToLLVMConversionPass());
  manager.addPass(mlir::createConvertControlFlowToLLVMPass());
  manager.addPass(mlir::createConvertFuncToLLVMPass());
  manager.addPass(mlir::createReconcileUnrealizedCastsPass());
}

void registerCpuPasses() {
  mlir::registerPass(createEntryPointPass);
  mlir::registerPass(createAssignBuffersPass);
  mlir::registerPass([] { return createVectorizePass({}); });
  mlir::registerPass([] { return createExpandMathPass({}); });
  mlir::PassPipelineRegistration<>("tile-cpu-pipeline", "Lower tile programs to the LLVM dialect for AVX-512",
                                   [](mlir::OpPassManager& manager) { buildCpuPipeline(manager, {}); });
}

}  // namespace tilewright::tile
