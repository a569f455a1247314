// Registration of the tile dialect and the verifiers of its ops. Each names the rule that was broken, with the values.
#include "compiler/tile/dialect/tile.h"

#include "mlir/IR/DialectImplementation.h"

#include "compiler/tile/dialect/tile_dialect.cpp.inc"
#include "compiler/tile/dialect/tile_enums.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/tile/dialect/tile_ops.cpp.inc"

namespace tilewright::tile {

using mlir::failure;
using mlir::LogicalResult;
using mlir::RankedTensorType;
using mlir::success;

void TileDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/tile/dialect/tile_ops.cpp.inc"
      >();
}

namespace {

/// A block of memory has one offset, bound and stride per dimension of its tile.
template <typename BlockOp>
LogicalResult verifyBlock(BlockOp op, RankedTensorType tile) {
  const auto rank = static_cast<std::size_t>(tile.getRank());
  if (op.getOffsets().size() != rank || op.getBounds().size() != rank || op.getStrides().size() != rank) {
    return op.emitOpError() << "takes one offset, bound and stride per dimension of its tile, which has rank " << rank
                            << ", got " << op.getOffsets().size() << " offsets, " << op.getBounds().size()
                            << " bounds and " << op.getStrides().size() << " strides";
  }
  if (tile.getElementType().isInteger(1)) return op.emitOpError() << "cannot address elements of i1";
  return success();
}

LogicalResult verifyAxis(mlir::Operation* op, std::int64_t axis, std::int64_t rank) {
  if (axis >= 0 && axis < rank) return success();
  return op->emitOpError() << "has axis " << axis << ", must be from 0 to " << rank - 1;
}

}  // namespace

LogicalResult ProgramIdOp::verify() {
  return verifyAxis(*this, getAxis(), 3);
}

LogicalResult LoadOp::verify() {
  return verifyBlock(*this, getResult().getType());
}

LogicalResult StoreOp::verify() {
  return verifyBlock(*this, getValue().getType());
}

LogicalResult DotOp::verify() {
  const RankedTensorType a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  if (a.getRank() != 2 || b.getRank() != 2 || acc.getRank() != 2) {
    return emitOpError() << "takes tiles of rank 2, got ranks " << a.getRank() << ", " << b.getRank() << " and "
                         << acc.getRank();
  }
  const int rowsOfB = getTransposeB() ? 1 : 0;
  const std::int64_t k = b.getDimSize(rowsOfB), n = b.getDimSize(1 - rowsOfB);
  if (a.getDimSize(1) != k) return emitOpError() << "has k = " << a.getDimSize(1) << " in a and k = " << k << " in b";
  if (acc.getDimSize(0) != a.getDimSize(0) || acc.getDimSize(1) != n) {
    return emitOpError() << "must accumulate into [" << a.getDimSize(0) << ", " << n << "], got [" << acc.getDimSize(0)
                         << ", " << acc.getDimSize(1) << "]";
  }
  return success();
}

LogicalResult ReduceOp::verify() {
  const RankedTensorType source = getSource().getType(), result = getResult().getType();
  if (source.getRank() != 2) return emitOpError() << "takes a tile of rank 2, got rank " << source.getRank();
  if (failed(verifyAxis(*this, getAxis(), 2))) return failure();
  const std::int64_t kept = source.getDimSize(1 - getAxis());
  if (result.getRank() != 1 || result.getDimSize(0) != kept) {
    return emitOpError() << "along " << getAxis() << " must give [" << kept << "], got " << result;
  }
  return success();
}

LogicalResult BroadcastOp::verify() {
  const RankedTensorType source = getSource().getType(), result = getResult().getType();
  if (source.getElementType() != result.getElementType()) {
    return emitOpError() << "keeps the element type, got " << source.getElementType() << " and "
                         << result.getElementType();
  }
  if (result.getRank() != 2) return emitOpError() << "gives a tile of rank 2, got rank " << result.getRank();
  if (failed(verifyAxis(*this, getAxis(), 2))) return failure();
  if (source.getRank() == 1) {
    if (source.getDimSize(0) == result.getDimSize(1 - getAxis())) return success();
    return emitOpError() << "along " << getAxis() << " takes [" << result.getDimSize(1 - getAxis()) << "], got ["
                         << source.getDimSize(0) << "]";
  }
  if (getAxis() != 1) return emitOpError() << "repeats a tile of rank 2 along axis 1 only, got axis " << getAxis();
  if (source.getDimSize(0) != result.getDimSize(0)) {
    return emitOpError() << "keeps the rows, got " << source.getDimSize(0) << " and " << result.getDimSize(0);
  }
  if (result.getDimSize(1) % source.getDimSize(1) != 0) {
    return emitOpError() << "repeats " << source.getDimSize(1) << " columns to a multiple of them, got "
                         << result.getDimSize(1);
  }
  return success();
}

LogicalResult SplatOp::verify() {
  if (getScalar().getType() == getResult().getType().getElementType()) return success();
  return emitOpError() << "keeps the element type, got " << getScalar().getType() << " and "
                       << getResult().getType().getElementType();
}

LogicalResult IotaOp::verify() {
  return verifyAxis(*this, getAxis(), getResult().getType().getRank());
}

LogicalResult ConvertOp::verify() {
  const RankedTensorType source = getSource().getType(), result = getResult().getType();
  if (source.getShape() != result.getShape()) {
    return emitOpError() << "keeps the shape, got " << source << " and " << result;
  }
  const mlir::Type from = source.getElementType(), to = result.getElementType();
  const bool fromInteger = from.isInteger(8) || from.isInteger(32);
  const bool known = (llvm::isa<mlir::FloatType>(from) && llvm::isa<mlir::FloatType>(to) && from != to) ||
                     (fromInteger && to.isF32()) || (from.isInteger(8) && to.isInteger(32));
  if (!known) {
    return emitOpError() << "converts between floats, from i8 or i32 to f32 and from i8 to i32, got " << from << " to "
                         << to;
  }
  if (getIsUnsigned() && !fromInteger) return emitOpError() << "reads integers as unsigned, got " << from;
  return success();
}

LogicalResult Unpack4Op::verify() {
  const RankedTensorType source = getSource().getType(), result = getResult().getType();
  const std::int64_t bytes = source.getShape().back();
  if (getGroup() < 1 || bytes % getGroup() != 0) {
    return emitOpError() << "takes groups that divide its " << bytes << " bytes, got " << getGroup();
  }
  const bool sameRows =
      source.getRank() == result.getRank() && (source.getRank() == 1 || source.getDimSize(0) == result.getDimSize(0));
  if (!sameRows || result.getShape().back() != 2 * bytes) {
    return emitOpError() << "gives two fields per byte in the same rows, got " << source << " and " << result;
  }
  return success();
}

LogicalResult Unpack6Op::verify() {
  const RankedTensorType source = getSource().getType(), result = getScales().getType();
  if (source.getRank() != 2 || source.getDimSize(1) != 12) {
    return emitOpError() << "takes [n, 12] bytes, got " << source;
  }
  if (result.getRank() != 2 || result.getDimSize(0) != source.getDimSize(0) || result.getDimSize(1) != 8) {
    return emitOpError() << "gives [" << source.getDimSize(0) << ", 8] scales and minimums, got " << result;
  }
  return success();
}

LogicalResult ExtractOp::verify() {
  const RankedTensorType source = getSource().getType();
  if (source.getRank() != 1) return emitOpError() << "takes a tile of rank 1, got rank " << source.getRank();
  if (getResult().getType() != source.getElementType()) {
    return emitOpError() << "gives the element type " << source.getElementType() << ", got " << getResult().getType();
  }
  const auto position = static_cast<std::int64_t>(getPosition());
  if (position < 0 || position >= source.getDimSize(0)) {
    return emitOpError() << "has position " << position << ", must be from 0 to " << source.getDimSize(0) - 1;
  }
  return success();
}

}  // namespace tilewright::tile
