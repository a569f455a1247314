// The emitter's vocabulary: vectors, addresses, loops, and the cutting of rows into chunks.
#include "compiler/tile/lower_cpu/emitter.h"

#include <algorithm>
#include <bit>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace scf = mlir::scf;
using mlir::Value;
using mlir::ValueRange;

Emitter::Emitter(mlir::func::FuncOp function, const CpuOptions& options)
    : function_(function), options_(options), builder_(function.getContext()), location_(function.getLoc()) {}

int Emitter::lanes() const {
  return options_.vectorBytes / 4;
}

llvm::SmallVector<Chunk> Emitter::chunksOf(std::int64_t begin, std::int64_t end, int width) {
  llvm::SmallVector<Chunk> chunks;
  while (begin < end) {
    while (begin + width > end) width /= 2;
    chunks.push_back({begin, width});
    begin += width;
  }
  return chunks;
}

mlir::Type Emitter::vectorOf(mlir::Type element, int width) const {
  return width == 1 ? element : mlir::VectorType::get({width}, element);
}

Value Emitter::index(std::int64_t value) {
  return arith::ConstantIndexOp::create(builder_, location_, value);
}

Value Emitter::constant(mlir::TypedAttr value, int width) {
  if (width == 1) return arith::ConstantOp::create(builder_, location_, value);
  const auto type = mlir::VectorType::get({width}, value.getType());
  return arith::ConstantOp::create(builder_, location_, mlir::DenseElementsAttr::get(type, mlir::Attribute(value)));
}

Value Emitter::zero(mlir::Type type) {
  return arith::ConstantOp::create(builder_, location_, llvm::cast<mlir::TypedAttr>(builder_.getZeroAttr(type)));
}

Value Emitter::add(Value a, Value b) {
  return arith::AddIOp::create(builder_, location_, a, b);
}
Value Emitter::multiply(Value a, Value b) {
  return arith::MulIOp::create(builder_, location_, a, b);
}

Value Emitter::broadcast(Value scalar, int width) {
  if (width == 1) return scalar;
  return mlir::vector::BroadcastOp::create(builder_, location_, mlir::VectorType::get({width}, scalar.getType()),
                                           scalar);
}

Value Emitter::shuffle(Value a, Value b, llvm::ArrayRef<std::int64_t> mask) {
  return mlir::vector::ShuffleOp::create(builder_, location_, a, b, mask);
}

Value Emitter::addressOf(Value base, mlir::Type element, Value offset) {
  const Value wide = arith::IndexCastOp::create(builder_, location_, builder_.getI64Type(), offset);
  return mlir::LLVM::GEPOp::create(builder_, location_, base.getType(), element, base, ValueRange{wide});
}

Value Emitter::address(const TileBuffer& buffer, mlir::Type element, Value row, Value column) {
  return addressOf(buffer.base, element, add(multiply(row, buffer.pitch), column));
}

Value Emitter::loadVector(Value address, mlir::Type element, int width) {
  const unsigned bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  return mlir::LLVM::LoadOp::create(builder_, location_, vectorOf(element, width), address, bytes);
}

void Emitter::storeVector(Value value, Value address) {
  const unsigned bytes = std::max(1u, mlir::getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() / 8);
  mlir::LLVM::StoreOp::create(builder_, location_, value, address, bytes);
}

Value Emitter::widen(Value value) {
  const mlir::Type element = mlir::getElementTypeOrSelf(value.getType());
  if (element.isF32()) return value;
  const auto vector = llvm::dyn_cast<mlir::VectorType>(value.getType());
  return arith::ExtFOp::create(
      builder_, location_, vectorOf(builder_.getF32Type(), vector ? static_cast<int>(vector.getDimSize(0)) : 1), value);
}

Value Emitter::multiplyAdd(Value a, Value b, Value sum) {
  if (llvm::isa<mlir::VectorType>(a.getType())) return mlir::vector::FMAOp::create(builder_, location_, a, b, sum);
  return arith::AddFOp::create(builder_, location_, arith::MulFOp::create(builder_, location_, a, b), sum);
}

Value Emitter::sumOfLanes(Value vector) {
  if (!llvm::isa<mlir::VectorType>(vector.getType())) return vector;
  return mlir::vector::ReductionOp::create(builder_, location_, mlir::vector::CombiningKind::ADD, vector,
                                           arith::FastMathFlags::reassoc);
}

Emitter::Values Emitter::loop(Value begin, Value end, std::int64_t step, ValueRange initial,
                              const std::function<Values(Value, ValueRange)>& body) {
  auto loop = scf::ForOp::create(builder_, location_, begin, end, index(step), initial);
  const mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(loop.getBody());
  const Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  // A loop that carries nothing has its terminator already.
  if (!initial.empty()) scf::YieldOp::create(builder_, location_, next);
  return Values(loop.getResults());
}

void Emitter::loop(Value begin, Value end, std::int64_t step, const std::function<void(Value)>& body) {
  loop(begin, end, step, {}, [&](Value at, ValueRange) {
    body(at);
    return Values{};
  });
}

void Emitter::branch(Value condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  auto branch = scf::IfOp::create(builder_, location_, condition, /*withElseRegion=*/true);
  const mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(branch.thenBlock());
  then();
  builder_.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

void Emitter::forEachChunkOfRow(std::int64_t columns, Value row, const At& at) {
  constexpr std::int64_t kMostUnrolled = 4;
  const int width = lanes();
  const std::int64_t whole = columns / width;
  std::int64_t begin = 0;
  if (whole > kMostUnrolled) {
    loop(index(0), index(whole * width), width, [&](Value column) { at(row, column, width); });
    begin = whole * width;
  }
  for (const Chunk& chunk : chunksOf(begin, columns, width)) at(row, index(chunk.begin), chunk.width);
}

void Emitter::forEachChunk(mlir::RankedTensorType type, const At& at) {
  if (rowsOf(type) == 1) return forEachChunkOfRow(columnsOf(type), index(0), at);
  loop(index(0), index(rowsOf(type)), 1, [&](Value row) { forEachChunkOfRow(columnsOf(type), row, at); });
}

}  // namespace tilewright::tile
