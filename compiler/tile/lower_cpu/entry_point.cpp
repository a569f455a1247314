// The entry-point pass: gives a tile program the calling convention of HostCode::Entry.
//
//   func @f(%x: !llvm.ptr, %n: index, %s: f32)  becomes  func @f(%slots: !llvm.ptr, %id0: i64, %id1: i64, %id2: i64)
//
// Arguments come from 8-byte slots in order, a float from the low half of its slot; tile.program_id becomes %id<axis>.
#include "compiler/tile/dialect/tile.h"
#include "compiler/tile/lower_cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace LLVM = mlir::LLVM;
using mlir::Value;

namespace {

struct EntryPointPass : mlir::PassWrapper<EntryPointPass, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EntryPointPass)

  llvm::StringRef getArgument() const final { return "tile-cpu-entry-point"; }
  llvm::StringRef getDescription() const final { return "Take arguments from 8-byte slots and the program's ids"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const final {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() final {
    mlir::func::FuncOp function = getOperation();
    mlir::OpBuilder builder(function.getContext());
    const mlir::Location location = function.getLoc();
    const mlir::Type pointer = LLVM::LLVMPointerType::get(function.getContext()), i64 = builder.getI64Type();
    for (const mlir::Type type : function.getArgumentTypes()) {
      if (llvm::isa<LLVM::LLVMPointerType>(type) || type.isIndex() || type.isF32()) continue;
      function.emitError() << "takes an argument of type " << type << ", must be a pointer, an index or f32";
      return signalPassFailure();
    }
    if (function.getNumResults() != 0) {
      function.emitError() << "gives results, a tile program stores them";
      return signalPassFailure();
    }

    mlir::Block& entry = function.getBody().front();
    const unsigned count = entry.getNumArguments();
    const Value slots = entry.addArgument(pointer, location);
    llvm::SmallVector<Value> ids;
    builder.setInsertionPointToStart(&entry);
    for (int axis = 0; axis < 3; ++axis) {
      const Value id = entry.addArgument(i64, location);
      ids.push_back(arith::IndexCastOp::create(builder, location, builder.getIndexType(), id));
    }
    for (unsigned i = 0; i < count; ++i) {
      const mlir::Type type = entry.getArgument(i).getType();
      const Value slot = LLVM::GEPOp::create(builder, location, pointer, i64, slots,
                                             llvm::ArrayRef<LLVM::GEPArg>{static_cast<int>(i)});
      Value value = LLVM::LoadOp::create(builder, location, type.isIndex() ? i64 : type, slot);
      if (type.isIndex()) value = arith::IndexCastOp::create(builder, location, type, value);
      entry.getArgument(i).replaceAllUsesWith(value);
    }
    entry.eraseArguments(0, count);
    function.setType(builder.getFunctionType({pointer, i64, i64, i64}, {}));
    function.removeArgAttrsAttr();

    function.walk([&](ProgramIdOp id) {
      id.getResult().replaceAllUsesWith(ids[id.getAxis()]);
      id.erase();
    });
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> createEntryPointPass() {
  return std::make_unique<EntryPointPass>();
}

}  // namespace tilewright::tile
