// The state of the vectorize pass: where each tile lives, and how loops and vectors are written.
//
// A tile either has a buffer (base, pitch between rows, elements of its own type) or is evaluated where it is used:
// eval() gives the `width` elements from (row, column) on as a vector, by evaluating the tile's operands at the same
// place. That fuses whole chains of elementwise operations, unpacking and dequantization into the loop that consumes
// them.
#pragma once

#include <functional>

#include "compiler/tile/dialect/tile.h"
#include "compiler/tile/lower_cpu/passes.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright::tile {

/// Set by the assign-buffers pass on operations whose result gets a buffer.
inline constexpr llvm::StringLiteral kBufferAttribute = "tile.buffer";
/// Set by the assign-buffers pass on loads that may be read in place, because nothing is stored before their last use.
inline constexpr llvm::StringLiteral kInPlaceAttribute = "tile.in_place";

struct TileBuffer {
  mlir::Value base;   ///< pointer to element (0, 0)
  mlir::Value pitch;  ///< elements from one row to the next, index
};

/// Columns of a tile as vectors: position and width, widths falling.
struct Chunk {
  std::int64_t begin;
  int width;
};

class Emitter {
 public:
  using Values = llvm::SmallVector<mlir::Value>;
  using At = std::function<void(mlir::Value row, mlir::Value column, int width)>;

  Emitter(mlir::func::FuncOp function, const CpuOptions& options);
  mlir::LogicalResult run();

 private:
  // Control flow and dispatch: vectorize.cpp.
  mlir::LogicalResult emitBlock(mlir::Block& block);
  mlir::LogicalResult emitOperation(mlir::Operation& operation);
  mlir::LogicalResult emitFor(mlir::scf::ForOp loop);
  void emitReduce(ReduceOp reduce);
  void emitUnpack6(Unpack6Op unpack);

  // Values of a tile: evaluate.cpp.
  mlir::Value eval(mlir::Value tile, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalF32(mlir::Value tile, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalBroadcast(BroadcastOp broadcast, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalUnpack4(Unpack4Op unpack, mlir::Type element, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalConvert(ConvertOp convert, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalIota(IotaOp iota, mlir::Value row, mlir::Value column, int width);
  mlir::Value evalHalves(int width, mlir::Value column,
                         const std::function<mlir::Value(mlir::Value column, int width)>& half);
  void evalInto(mlir::Value tile, const TileBuffer& buffer);
  TileBuffer materialize(mlir::Value tile);

  // Memory: memory.cpp.
  TileBuffer allocate(mlir::RankedTensorType type);
  void emitLoad(LoadOp load);
  void emitStore(StoreOp store);
  struct Region;
  Region regionOf(mlir::RankedTensorType type, mlir::Value base, mlir::ValueRange offsets, mlir::ValueRange bounds,
                  mlir::ValueRange strides);
  mlir::Value addressIn(const Region& region, mlir::Type element, mlir::Value row, mlir::Value column, bool adjacent);
  void forEachWithin(const Region& region, mlir::RankedTensorType type,
                     const std::function<void(mlir::Value row, mlir::Value column, int width, bool adjacent)>& at);

  // Products: dot.cpp.
  struct Product;
  void emitDot(DotOp dot);
  TileBuffer accumulatorFor(DotOp dot);
  TileBuffer inPlaceTarget(mlir::Value acc, mlir::Block* block);
  void emitAlongK(const Product& product);
  void emitAlongKBlock(const Product& product, mlir::Value column, int columns);
  void emitMicroTiles(const Product& product);
  void emitColumnBlock(const Product& product, const TileBuffer& panel, mlir::Value column, std::int64_t columns);
  void packTransposed(const Product& product, const TileBuffer& panel, mlir::Value column, std::int64_t columns);
  void packStraight(const Product& product, const TileBuffer& panel, mlir::Value column, std::int64_t columns);
  void emitMicroTile(const Product& product, const TileBuffer& panel, mlir::Value row, int rows, mlir::Value column,
                     llvm::ArrayRef<Chunk> chunks);
  void transpose(Values& rows);

  // Small vocabulary.
  /// Elements of a chunk: the f32 lanes of the target's vectors, for every element type.
  int lanes() const;
  /// Cuts [begin, end) into chunks of `width` or, at the end, smaller powers of two.
  static llvm::SmallVector<Chunk> chunksOf(std::int64_t begin, std::int64_t end, int width);
  mlir::Type vectorOf(mlir::Type element, int width) const;  ///< the element itself for width 1
  mlir::Value index(std::int64_t value);
  mlir::Value constant(mlir::TypedAttr value, int width);
  mlir::Value zero(mlir::Type type);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value broadcast(mlir::Value scalar, int width);
  mlir::Value shuffle(mlir::Value a, mlir::Value b, llvm::ArrayRef<std::int64_t> mask);
  mlir::Value addressOf(mlir::Value base, mlir::Type element, mlir::Value offset);
  mlir::Value address(const TileBuffer& buffer, mlir::Type element, mlir::Value row, mlir::Value column);
  mlir::Value loadVector(mlir::Value address, mlir::Type element, int width);
  void storeVector(mlir::Value value, mlir::Value address);
  mlir::Value widen(mlir::Value value);  ///< any float to f32
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value sum);
  mlir::Value sumOfLanes(mlir::Value vector);
  Values loop(mlir::Value begin, mlir::Value end, std::int64_t step, mlir::ValueRange initial,
              const std::function<Values(mlir::Value, mlir::ValueRange)>& body);
  void loop(mlir::Value begin, mlir::Value end, std::int64_t step, const std::function<void(mlir::Value)>& body);
  void branch(mlir::Value condition, const std::function<void()>& then, const std::function<void()>& otherwise);
  /// Calls `at` for every chunk of a tile, row by row; long rows become loops.
  void forEachChunk(mlir::RankedTensorType type, const At& at);
  void forEachChunkOfRow(std::int64_t columns, mlir::Value row, const At& at);

  mlir::func::FuncOp function_;
  CpuOptions options_;
  mlir::OpBuilder builder_;
  mlir::Location location_;
  mlir::IRMapping scalars_;
  llvm::DenseMap<mlir::Value, TileBuffer> buffers_;
  std::int64_t stackBytes_ = 0;
};

inline mlir::RankedTensorType tileType(mlir::Value value) {
  return llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
}
inline std::int64_t rowsOf(mlir::RankedTensorType type) {
  return type.getRank() == 1 ? 1 : type.getDimSize(0);
}
inline std::int64_t columnsOf(mlir::RankedTensorType type) {
  return type.getShape().back();
}

}  // namespace tilewright::tile
