// The assign-buffers pass: decides which tiles are computed once into memory, and refuses what vectorize cannot lower.
//
// A tile is computed into a buffer when computing it where it is used would repeat real work: it is used more than
// once, inside a loop that does not compute it, or by a broadcast that reads each element many times. Reading, widening
// and repeating count as no work. A load may be read in place when nothing is stored between it and its last use.
#include "compiler/tile/dialect/tile.h"
#include "compiler/tile/lower_cpu/emitter.h"
#include "compiler/tile/lower_cpu/passes.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace scf = mlir::scf;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// Operations whose result always has a buffer.
bool hasOwnBuffer(mlir::Operation* operation) {
  return llvm::isa<LoadOp, DotOp, ReduceOp, Unpack6Op>(operation);
}

bool isFreeToRepeat(mlir::Operation* operation) {
  if (auto convert = llvm::dyn_cast<ConvertOp>(operation)) {
    return llvm::isa<mlir::FloatType>(convert.getSource().getType().getElementType()) &&
           convert.getResult().getType().getElementType().isF32();
  }
  return llvm::isa<arith::ConstantOp, SplatOp, IotaOp, BroadcastOp>(operation);
}

bool wantsBuffer(mlir::Operation* operation) {
  const Value tile = operation->getResult(0);
  if (isFreeToRepeat(operation) || tileType(tile).getElementType().isInteger(1)) return false;
  if (!tile.hasOneUse()) return !tile.use_empty();
  mlir::Operation* user = *tile.user_begin();
  return user->getBlock() != operation->getBlock() || llvm::isa<BroadcastOp>(user);
}

/// Whether a store may come between the load and something that reads it, directly or through tiles that are computed
/// where they are used. Runs when buffers are assigned.
bool isOverwrittenBeforeUse(LoadOp load) {
  llvm::SetVector<mlir::Operation*> readers;
  readers.insert(load);
  mlir::Operation* last = load;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (i > 0 && (hasOwnBuffer(readers[i]) || readers[i]->hasAttr(kBufferAttribute))) continue;
    for (mlir::Operation* user : readers[i]->getUsers()) {
      readers.insert(user);
      mlir::Operation* here = load->getBlock()->findAncestorOpInBlock(*user);
      if (here != nullptr && last->isBeforeInBlock(here)) last = here;
    }
  }
  // A store that is itself the last reader counts too: it may write elements that it has yet to read.
  for (mlir::Operation* between = load->getNextNode(); last != load && between != nullptr;
       between = between->getNextNode()) {
    if (between->walk([](StoreOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted()) return true;
    if (between == last) break;
  }
  return false;
}

LogicalResult checkElementwise(mlir::Operation* operation) {
  if (auto constant = llvm::dyn_cast<arith::ConstantOp>(operation)) {
    const auto elements = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    if (elements && elements.isSplat()) return success();
    return operation->emitError() << "cannot lower a tile constant whose elements differ";
  }
  if (operation->getDialect() == operation->getContext()->getLoadedDialect<TileDialect>()) return success();
  if (!operation->hasTrait<mlir::OpTrait::Elementwise>() || operation->getNumResults() != 1) {
    return operation->emitError() << "cannot lower '" << operation->getName() << "' on tiles: it is not elementwise";
  }
  for (const Value operand : operation->getOperands()) {
    const mlir::Type element = mlir::getElementTypeOrSelf(operand.getType());
    if (element.isBF16() || element.isF16()) {
      return operation->emitError() << "computes on " << element << ": convert to f32 first";
    }
  }
  const mlir::Type element = tileType(operation->getResult(0)).getElementType();
  if (element.isBF16() || element.isF16()) {
    return operation->emitError() << "gives " << element << ": only tile.convert does";
  }
  return success();
}

LogicalResult checkOperation(mlir::Operation* operation) {
  const auto isTile = [](Value value) { return tileType(value) != nullptr; };
  if (!llvm::any_of(operation->getOperands(), isTile) && !llvm::any_of(operation->getResults(), isTile)) {
    if (operation->getNumRegions() == 0 || llvm::isa<scf::ForOp, mlir::func::FuncOp>(operation)) return success();
    return operation->emitError() << "cannot lower control flow other than scf.for";
  }
  if (auto loop = llvm::dyn_cast<scf::ForOp>(operation)) {
    for (const Value carried : loop.getInitArgs()) {
      if (!isTile(carried) || !tileType(carried).getElementType().isInteger(1)) continue;
      return operation->emitError() << "cannot carry a tile of i1 through a loop";
    }
    return success();
  }
  if (llvm::isa<scf::YieldOp>(operation)) return success();
  return checkElementwise(operation);
}

struct AssignBuffersPass : mlir::PassWrapper<AssignBuffersPass, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AssignBuffersPass)

  llvm::StringRef getArgument() const final { return "tile-cpu-assign-buffers"; }
  llvm::StringRef getDescription() const final { return "Decide which tiles live in memory"; }

  void runOnOperation() final {
    for (const mlir::Type type : getOperation().getArgumentTypes()) {
      if (!llvm::isa<mlir::RankedTensorType>(type)) continue;
      getOperation().emitError() << "takes a tile as an argument, tiles come from memory";
      return signalPassFailure();
    }
    const auto unit = mlir::UnitAttr::get(&getContext());
    const auto checked = getOperation().walk([&](mlir::Operation* operation) {
      if (failed(checkOperation(operation))) return mlir::WalkResult::interrupt();
      if (operation->getNumResults() == 1 && tileType(operation->getResult(0)) && !hasOwnBuffer(operation) &&
          !llvm::isa<scf::ForOp>(operation) && wantsBuffer(operation)) {
        operation->setAttr(kBufferAttribute, unit);
      }
      return mlir::WalkResult::advance();
    });
    if (checked.wasInterrupted()) return signalPassFailure();
    getOperation().walk([&](LoadOp load) {
      if (!isOverwrittenBeforeUse(load)) load->setAttr(kInPlaceAttribute, unit);
    });
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> createAssignBuffersPass() {
  return std::make_unique<AssignBuffersPass>();
}

}  // namespace tilewright::tile
