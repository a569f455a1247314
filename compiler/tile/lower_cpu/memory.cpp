// Loads, stores and the buffers of tiles.
//
// A block is whole when its tile lies within the bounds and its columns are adjacent; then rows are read and written as
// vectors, and a load that nothing overwrites is not copied at all: its buffer is the memory itself. Anything else goes
// row by row over the part within the bounds, by vectors where columns are adjacent and by elements where not.
#include "compiler/tile/lower_cpu/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace scf = mlir::scf;
using mlir::Value;

/// The memory block of a load or store; a rank-1 block is one row.
struct Emitter::Region {
  Value base, row, column, rowBound, columnBound, rowStride, columnStride;
  Value adjacent;  ///< i1: the stride between columns is 1
  Value whole;     ///< i1: adjacent, and the tile lies within the bounds
};

TileBuffer Emitter::allocate(mlir::RankedTensorType type) {
  // Rows of a power of two would share few sets of the cache: pad those from half a page on by one line.
  const std::int64_t bytes = std::max(1u, type.getElementTypeBitWidth() / 8);
  std::int64_t pitch = columnsOf(type);
  if (rowsOf(type) > 1 && pitch * bytes % 2048 == 0) pitch += 64 / bytes;
  stackBytes_ += rowsOf(type) * pitch * bytes;

  const mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(&function_.getBody().front());
  const auto pointer = mlir::LLVM::LLVMPointerType::get(builder_.getContext());
  const Value count = arith::ConstantIntOp::create(builder_, location_, rowsOf(type) * pitch, 64);
  const Value base =
      mlir::LLVM::AllocaOp::create(builder_, location_, pointer, type.getElementType(), count, /*alignment=*/64);
  return {base, index(pitch)};
}

Emitter::Region Emitter::regionOf(mlir::RankedTensorType type, Value base, mlir::ValueRange offsets,
                                  mlir::ValueRange bounds, mlir::ValueRange strides) {
  const auto scalar = [&](Value value) { return scalars_.lookupOrDefault(value); };
  Region region;
  region.base = scalar(base);
  const bool isRow = type.getRank() == 1;
  region.row = isRow ? index(0) : scalar(offsets[0]);
  region.rowBound = isRow ? index(1) : scalar(bounds[0]);
  region.rowStride = isRow ? index(0) : scalar(strides[0]);
  region.column = scalar(offsets.back());
  region.columnBound = scalar(bounds.back());
  region.columnStride = scalar(strides.back());

  const auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder_, location_, predicate, a, b);
  };
  region.adjacent = compare(arith::CmpIPredicate::eq, region.columnStride, index(1));
  const Value rows = compare(arith::CmpIPredicate::sle, add(region.row, index(rowsOf(type))), region.rowBound);
  const Value columns =
      compare(arith::CmpIPredicate::sle, add(region.column, index(columnsOf(type))), region.columnBound);
  region.whole = arith::AndIOp::create(builder_, location_, region.adjacent,
                                       arith::AndIOp::create(builder_, location_, rows, columns));
  return region;
}

Value Emitter::addressIn(const Region& region, mlir::Type element, Value row, Value column, bool adjacent) {
  Value across = add(region.column, column);
  if (!adjacent) across = multiply(across, region.columnStride);
  return addressOf(region.base, element, add(multiply(add(region.row, row), region.rowStride), across));
}

void Emitter::forEachWithin(const Region& region, mlir::RankedTensorType type,
                            const std::function<void(Value, Value, int, bool)>& at) {
  const auto clamped = [&](Value bound, Value offset, std::int64_t extent) -> Value {
    const Value left = arith::SubIOp::create(builder_, location_, bound, offset);
    const Value most = arith::MinSIOp::create(builder_, location_, left, index(extent));
    return arith::MaxSIOp::create(builder_, location_, most, index(0));
  };
  const Value rows = clamped(region.rowBound, region.row, rowsOf(type));
  const Value columns = clamped(region.columnBound, region.column, columnsOf(type));
  branch(
      region.adjacent,
      [&] {
        const Value beyond = arith::RemUIOp::create(builder_, location_, columns, index(lanes()));
        const Value vectors = arith::SubIOp::create(builder_, location_, columns, beyond);
        loop(index(0), rows, 1, [&](Value row) {
          if (columnsOf(type) >= lanes()) {
            loop(index(0), vectors, lanes(), [&](Value column) { at(row, column, lanes(), true); });
          }
          loop(vectors, columns, 1, [&](Value column) { at(row, column, 1, true); });
        });
      },
      [&] {
        loop(index(0), rows, 1,
             [&](Value row) { loop(index(0), columns, 1, [&](Value column) { at(row, column, 1, false); }); });
      });
}

void Emitter::emitLoad(LoadOp load) {
  const mlir::RankedTensorType type = load.getResult().getType();
  const mlir::Type element = type.getElementType();
  const Region region = regionOf(type, load.getBase(), load.getOffsets(), load.getBounds(), load.getStrides());
  const TileBuffer buffer = allocate(type);
  const auto copy = [&](Value row, Value column, int width, bool adjacent) {
    const Value value = loadVector(addressIn(region, element, row, column, adjacent), element, width);
    storeVector(value, address(buffer, element, row, column));
  };
  const auto copyMasked = [&] {
    forEachChunk(type, [&](Value row, Value column, int width) {
      storeVector(zero(vectorOf(element, width)), address(buffer, element, row, column));
    });
    forEachWithin(region, type, copy);
  };

  if (!load->hasAttr(kInPlaceAttribute)) {
    branch(
        region.whole,
        [&] { forEachChunk(type, [&](Value row, Value column, int width) { copy(row, column, width, true); }); },
        copyMasked);
    buffers_[load.getResult()] = buffer;
    return;
  }
  const mlir::TypeRange types{region.base.getType(), builder_.getIndexType()};
  auto choice = scf::IfOp::create(builder_, location_, types, region.whole, /*withElseRegion=*/true);
  {
    const mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(choice.thenBlock());
    const Value first = addressIn(region, element, index(0), index(0), true);
    scf::YieldOp::create(builder_, location_, mlir::ValueRange{first, region.rowStride});
    builder_.setInsertionPointToStart(choice.elseBlock());
    copyMasked();
    scf::YieldOp::create(builder_, location_, mlir::ValueRange{buffer.base, buffer.pitch});
  }
  buffers_[load.getResult()] = {choice.getResult(0), choice.getResult(1)};
}

void Emitter::emitStore(StoreOp store) {
  const Value tile = store.getValue();
  const mlir::RankedTensorType type = tileType(tile);
  const mlir::Type element = type.getElementType();
  const Region region = regionOf(type, store.getBase(), store.getOffsets(), store.getBounds(), store.getStrides());
  const auto write = [&](Value row, Value column, int width, bool adjacent) {
    const Value value = eval(tile, row, column, width);
    storeVector(value, addressIn(region, element, row, column, adjacent));
  };
  branch(
      region.whole,
      [&] { forEachChunk(type, [&](Value row, Value column, int width) { write(row, column, width, true); }); },
      [&] { forEachWithin(region, type, write); });
}

}  // namespace tilewright::tile
