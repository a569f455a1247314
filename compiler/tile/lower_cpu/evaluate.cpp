// Evaluation of a tile at one place: `width` elements of a row as a vector, by evaluating its operands at the same
// place.
//
// Positions are multiples of the width, and widths are powers of two. Where an operation's structure is finer than the
// width (a repeat of 8 columns under a vector of 16), the vector is put together from halves.
#include "compiler/tile/lower_cpu/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
using mlir::Value;

Value Emitter::eval(Value tile, Value row, Value column, int width) {
  const mlir::RankedTensorType type = tileType(tile);
  if (const auto found = buffers_.find(tile); found != buffers_.end()) {
    return loadVector(address(found->second, type.getElementType(), row, column), type.getElementType(), width);
  }
  mlir::Operation* operation = tile.getDefiningOp();
  if (auto constantTile = llvm::dyn_cast<arith::ConstantOp>(operation)) {
    const auto elements = llvm::cast<mlir::DenseElementsAttr>(constantTile.getValue());
    return constant(elements.getSplatValue<mlir::TypedAttr>(), width);
  }
  if (auto splat = llvm::dyn_cast<SplatOp>(operation)) {
    return broadcast(scalars_.lookupOrDefault(splat.getScalar()), width);
  }
  if (auto op = llvm::dyn_cast<BroadcastOp>(operation)) return evalBroadcast(op, row, column, width);
  if (auto op = llvm::dyn_cast<IotaOp>(operation)) return evalIota(op, row, column, width);
  if (auto op = llvm::dyn_cast<ConvertOp>(operation)) return evalConvert(op, row, column, width);
  if (auto op = llvm::dyn_cast<Unpack4Op>(operation)) return evalUnpack4(op, type.getElementType(), row, column, width);

  // Elementwise: the same operation on vectors.
  mlir::OperationState state(location_, operation->getName());
  for (const Value operand : operation->getOperands()) {
    state.addOperands(tileType(operand) ? eval(operand, row, column, width) : scalars_.lookupOrDefault(operand));
  }
  state.addTypes(vectorOf(type.getElementType(), width));
  for (const mlir::NamedAttribute attribute : operation->getAttrs()) {
    if (attribute.getName() != kBufferAttribute) state.attributes.push_back(attribute);
  }
  return builder_.create(state)->getResult(0);
}

Value Emitter::evalF32(Value tile, Value row, Value column, int width) {
  return widen(eval(tile, row, column, width));
}

Value Emitter::evalHalves(int width, Value column, const std::function<Value(Value, int)>& half) {
  const Value low = half(column, width / 2), high = half(add(column, index(width / 2)), width / 2);
  if (width == 2) {
    const auto type = mlir::VectorType::get({2}, low.getType());
    return mlir::vector::FromElementsOp::create(builder_, location_, type, mlir::ValueRange{low, high});
  }
  llvm::SmallVector<std::int64_t> all(width);
  for (int i = 0; i < width; ++i) all[i] = i;
  return shuffle(low, high, all);
}

Value Emitter::evalBroadcast(BroadcastOp op, Value row, Value column, int width) {
  const mlir::RankedTensorType source = op.getSource().getType(), result = op.getResult().getType();
  if (source.getRank() == 1) {
    if (op.getAxis() == 0) return eval(op.getSource(), index(0), column, width);
    return broadcast(eval(op.getSource(), index(0), row, 1), width);
  }
  const std::int64_t repeats = result.getDimSize(1) / source.getDimSize(1);
  if (repeats == 1) return eval(op.getSource(), row, column, width);
  if (repeats % width != 0) {
    return evalHalves(width, column, [&](Value at, int half) { return evalBroadcast(op, row, at, half); });
  }
  const Value from = arith::DivUIOp::create(builder_, location_, column, index(repeats));
  return broadcast(eval(op.getSource(), row, from, 1), width);
}

Value Emitter::evalIota(IotaOp op, Value row, Value column, int width) {
  const bool alongColumns = op.getAxis() + 1 == op.getResult().getType().getRank();
  const Value first =
      arith::IndexCastOp::create(builder_, location_, builder_.getI32Type(), alongColumns ? column : row);
  const Value start = broadcast(first, width);
  if (!alongColumns || width == 1) return start;
  llvm::SmallVector<std::int32_t> steps(width);
  for (int i = 0; i < width; ++i) steps[i] = i;
  const Value offsets = arith::ConstantOp::create(builder_, location_, builder_.getI32VectorAttr(steps));
  return add(start, offsets);
}

Value Emitter::evalUnpack4(Unpack4Op op, mlir::Type element, Value row, Value column, int width) {
  const auto group = static_cast<std::int64_t>(op.getGroup());
  if (group % width != 0) {
    return evalHalves(width, column, [&](Value at, int half) { return evalUnpack4(op, element, row, at, half); });
  }
  // Field j lies in byte (j / 2g) g + j mod g, in the high nibble where j / g is odd.
  const Value size = index(group);
  const Value half = arith::DivUIOp::create(builder_, location_, column, size);
  const Value pair = arith::DivUIOp::create(builder_, location_, half, index(2));
  const Value within = arith::RemUIOp::create(builder_, location_, column, size);
  const Value bytes = eval(op.getSource(), row, add(multiply(pair, size), within), width);
  const Value isHigh = arith::RemUIOp::create(builder_, location_, half, index(2));

  // Shift in 32 bits: x86 has no shifts of bytes.
  const mlir::Type i32 = builder_.getI32Type();
  const Value wide = arith::ExtUIOp::create(builder_, location_, vectorOf(i32, width), bytes);
  const Value amount = arith::IndexCastOp::create(builder_, location_, i32, multiply(isHigh, index(4)));
  const Value shifted = arith::ShRUIOp::create(builder_, location_, wide, broadcast(amount, width));
  const Value field =
      arith::AndIOp::create(builder_, location_, shifted, constant(builder_.getI32IntegerAttr(15), width));
  if (element == i32) return field;
  return arith::TruncIOp::create(builder_, location_, vectorOf(element, width), field);
}

Value Emitter::evalConvert(ConvertOp op, Value row, Value column, int width) {
  const mlir::Type from = op.getSource().getType().getElementType(), to = op.getResult().getType().getElementType();
  const mlir::Type i32 = builder_.getI32Type();
  if (llvm::isa<mlir::FloatType>(from)) {
    const Value value = eval(op.getSource(), row, column, width);
    const Value wide = widen(value);
    if (to.isF32()) return wide;
    return arith::TruncFOp::create(builder_, location_, vectorOf(to, width), wide);
  }
  // Integers go through i32; fields of four bits come as i32 at once.
  Value integer;
  auto unpack = op.getSource().getDefiningOp<Unpack4Op>();
  if (from.isInteger(32)) {
    integer = eval(op.getSource(), row, column, width);
  } else if (unpack && !buffers_.contains(op.getSource())) {
    integer = evalUnpack4(unpack, i32, row, column, width);
  } else {
    const Value bytes = eval(op.getSource(), row, column, width);
    integer = op.getIsUnsigned() ? Value(arith::ExtUIOp::create(builder_, location_, vectorOf(i32, width), bytes))
                                 : Value(arith::ExtSIOp::create(builder_, location_, vectorOf(i32, width), bytes));
  }
  if (to.isInteger(32)) return integer;
  if (from.isInteger(32) && op.getIsUnsigned()) {
    return arith::UIToFPOp::create(builder_, location_, vectorOf(to, width), integer);
  }
  return arith::SIToFPOp::create(builder_, location_, vectorOf(to, width), integer);
}

void Emitter::evalInto(Value tile, const TileBuffer& buffer) {
  const mlir::RankedTensorType type = tileType(tile);
  forEachChunk(type, [&](Value row, Value column, int width) {
    const Value value = eval(tile, row, column, width);
    storeVector(value, address(buffer, type.getElementType(), row, column));
  });
}

TileBuffer Emitter::materialize(Value tile) {
  if (const auto found = buffers_.find(tile); found != buffers_.end()) return found->second;
  const TileBuffer buffer = allocate(tileType(tile));
  evalInto(tile, buffer);
  return buffers_[tile] = buffer;
}

}  // namespace tilewright::tile
