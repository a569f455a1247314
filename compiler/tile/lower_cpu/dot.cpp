// Products of tiles, acc[m, n] += a[m, k] . b[k, n], in one of two ways.
//
// Micro-tiles: `microRows` rows by `microVectors` vectors of acc stay in registers over all of k; each step multiplies
// one element of a, broadcast, with a row of b.
//
//            b  [--v0--][--v1--]            8 x 2 micro-tile of AVX-512: 16 accumulators, 2 vectors of b,
//     a  x      [acc00 ][acc01 ]            a comes as the FMA's broadcast operand: 16 FMAs for 10 loads.
//        x      [acc10 ][acc11 ]
//        :         :       :
//
// b is first packed into a panel [k, columns of the micro-tile] of f32: transposed (in registers, square by square),
// widened, dequantized, each element once for all rows of a. a is widened into a buffer.
//
// Along k: for few rows and a transposed b, packing would cost more than the product. Then lanes run along k, each
// element of acc has a vector of partial sums, and b is read once, in its own order and format.
#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/tile/lower_cpu/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::ValueRange;

namespace {

constexpr std::int64_t kMostRowsAlongK = 8;

bool isElementwise(mlir::Operation* operation) {
  return operation->hasTrait<mlir::OpTrait::Elementwise>() && operation->getNumResults() == 1;
}

}  // namespace

struct Emitter::Product {
  std::int64_t m, n, k;
  TileBuffer a;  ///< f32
  Value b;
  bool transposed;
  TileBuffer acc;
  bool fromZero;  ///< acc holds nothing yet and counts as zero
};

/// The buffer of a value that `acc` is computed from elementwise and that nothing else reads; else no base.
TileBuffer Emitter::inPlaceTarget(Value acc, mlir::Block* block) {
  if (!acc.hasOneUse() || acc.getParentBlock() != block) return {};
  if (const auto found = buffers_.find(acc); found != buffers_.end()) {
    return acc.getDefiningOp<LoadOp>() ? TileBuffer{} : found->second;
  }
  mlir::Operation* operation = acc.getDefiningOp();
  if (!isElementwise(operation)) return {};
  for (const Value operand : operation->getOperands()) {
    if (operand.getType() != acc.getType()) continue;
    if (const TileBuffer target = inPlaceTarget(operand, block); target.base) return target;
  }
  return {};
}

TileBuffer Emitter::accumulatorFor(DotOp dot) {
  const Value acc = dot.getAcc();
  const TileBuffer target = inPlaceTarget(acc, dot->getBlock());
  if (target.base && buffers_.contains(acc)) return target;
  const TileBuffer buffer = target.base ? target : allocate(tileType(acc));
  evalInto(acc, buffer);
  return buffer;
}

void Emitter::emitDot(DotOp dot) {
  const mlir::RankedTensorType a = dot.getA().getType(), acc = dot.getAcc().getType();
  Product product{.m = acc.getDimSize(0), .n = acc.getDimSize(1), .k = a.getDimSize(1)};
  product.b = dot.getB();
  product.transposed = dot.getTransposeB();
  if (a.getElementType().isF32() && buffers_.contains(dot.getA())) {
    product.a = buffers_[dot.getA()];
  } else {
    const auto widened = mlir::RankedTensorType::get(a.getShape(), builder_.getF32Type());
    product.a = allocate(widened);
    forEachChunk(widened, [&](Value row, Value column, int width) {
      const Value value = evalF32(dot.getA(), row, column, width);
      storeVector(value, address(product.a, builder_.getF32Type(), row, column));
    });
  }
  product.fromZero = mlir::matchPattern(dot.getAcc(), mlir::m_AnyZeroFloat());
  product.acc = product.fromZero ? allocate(acc) : accumulatorFor(dot);
  if (product.transposed && product.m <= kMostRowsAlongK) {
    emitAlongK(product);
  } else {
    emitMicroTiles(product);
  }
  buffers_[dot.getResult()] = product.acc;
}

void Emitter::emitAlongK(const Product& product) {
  // Half the registers hold sums; the other half is for operands.
  const std::int64_t registers = options_.vectorBytes == 64 ? 16 : 8;
  const std::int64_t columns = std::clamp<std::int64_t>(registers / product.m, 1, std::min<std::int64_t>(product.n, 8));
  const std::int64_t whole = product.n / columns * columns;
  loop(index(0), index(whole), columns,
       [&](Value column) { emitAlongKBlock(product, column, static_cast<int>(columns)); });
  if (whole < product.n) emitAlongKBlock(product, index(whole), static_cast<int>(product.n - whole));
}

void Emitter::emitAlongKBlock(const Product& product, Value column, int columns) {
  const mlir::Type f32 = builder_.getF32Type();
  const int m = static_cast<int>(product.m);
  const auto step = [&](Value k, int width, ValueRange sums) {
    Values a, next;
    for (int r = 0; r < m; ++r) a.push_back(loadVector(address(product.a, f32, index(r), k), f32, width));
    for (int c = 0; c < columns; ++c) {
      const Value b = evalF32(product.b, add(column, index(c)), k, width);
      for (int r = 0; r < m; ++r) next.push_back(multiplyAdd(a[r], b, sums[c * m + r]));
    }
    return next;
  };

  const std::int64_t whole = product.k / lanes() * lanes();
  Values totals;
  if (whole > 0) {
    const Values zeros(m * columns, zero(vectorOf(f32, lanes())));
    for (const Value sums : loop(index(0), index(whole), lanes(), zeros,
                                 [&](Value k, ValueRange sums) { return step(k, lanes(), sums); })) {
      totals.push_back(sumOfLanes(sums));
    }
  }
  for (const Chunk& chunk : chunksOf(whole, product.k, lanes())) {
    const Values rest = step(index(chunk.begin), chunk.width, Values(m * columns, zero(vectorOf(f32, chunk.width))));
    for (auto [i, sums] : llvm::enumerate(rest)) {
      const Value sum = sumOfLanes(sums);
      if (i < totals.size()) {
        totals[i] = arith::AddFOp::create(builder_, location_, totals[i], sum);
      } else {
        totals.push_back(sum);
      }
    }
  }
  for (int c = 0; c < columns; ++c) {
    for (int r = 0; r < m; ++r) {
      const Value at = address(product.acc, f32, index(r), add(column, index(c)));
      Value total = totals[c * m + r];
      if (!product.fromZero) total = arith::AddFOp::create(builder_, location_, loadVector(at, f32, 1), total);
      storeVector(total, at);
    }
  }
}

void Emitter::emitMicroTiles(const Product& product) {
  const std::int64_t width = std::min<std::int64_t>(product.n, std::int64_t{options_.microVectors} * lanes());
  const auto panelType = mlir::RankedTensorType::get({product.k, width}, builder_.getF32Type());
  // A straight b that serves one micro-tile only is read where it is, if it is in memory.
  const bool direct = !product.transposed && product.m <= options_.microRows;
  const TileBuffer panel = direct ? TileBuffer{} : allocate(panelType);

  const std::int64_t whole = product.n / width * width;
  loop(index(0), index(whole), width, [&](Value column) { emitColumnBlock(product, panel, column, width); });
  if (whole < product.n) emitColumnBlock(product, panel, index(whole), product.n - whole);
}

void Emitter::emitColumnBlock(const Product& product, const TileBuffer& panel, Value column, std::int64_t columns) {
  if (product.transposed) {
    packTransposed(product, panel, column, columns);
  } else if (panel.base) {
    packStraight(product, panel, column, columns);
  }
  const llvm::SmallVector<Chunk> chunks = chunksOf(0, columns, lanes());
  const int rows = static_cast<int>(std::min<std::int64_t>(options_.microRows, product.m));
  const std::int64_t whole = product.m / rows * rows;
  loop(index(0), index(whole), rows, [&](Value row) { emitMicroTile(product, panel, row, rows, column, chunks); });
  if (whole < product.m) {
    emitMicroTile(product, panel, index(whole), static_cast<int>(product.m - whole), column, chunks);
  }
}

void Emitter::packTransposed(const Product& product, const TileBuffer& panel, Value column, std::int64_t columns) {
  // Squares of the largest power of two that divides both sides.
  const mlir::Type f32 = builder_.getF32Type();
  const auto common = static_cast<std::uint64_t>(std::gcd(columns, product.k));
  const int side = std::min<int>(lanes(), 1 << std::countr_zero(common));
  loop(index(0), index(columns), side, [&](Value n) {
    loop(index(0), index(product.k), side, [&](Value k) {
      Values rows;
      for (int i = 0; i < side; ++i) rows.push_back(evalF32(product.b, add(add(column, n), index(i)), k, side));
      transpose(rows);
      for (int i = 0; i < side; ++i) storeVector(rows[i], address(panel, f32, add(k, index(i)), n));
    });
  });
}

void Emitter::packStraight(const Product& product, const TileBuffer& panel, Value column, std::int64_t columns) {
  loop(index(0), index(product.k), 1, [&](Value k) {
    for (const Chunk& chunk : chunksOf(0, columns, lanes())) {
      const Value value = evalF32(product.b, k, add(column, index(chunk.begin)), chunk.width);
      storeVector(value, address(panel, builder_.getF32Type(), k, index(chunk.begin)));
    }
  });
}

void Emitter::emitMicroTile(const Product& product, const TileBuffer& panel, Value row, int rows, Value column,
                            llvm::ArrayRef<Chunk> chunks) {
  const mlir::Type f32 = builder_.getF32Type();
  const auto accAddress = [&](int r, const Chunk& chunk) {
    return address(product.acc, f32, add(row, index(r)), add(column, index(chunk.begin)));
  };
  Values initial;
  for (int r = 0; r < rows; ++r) {
    for (const Chunk& chunk : chunks) {
      initial.push_back(product.fromZero ? zero(vectorOf(f32, chunk.width))
                                         : loadVector(accAddress(r, chunk), f32, chunk.width));
    }
  }
  const std::int64_t unroll = std::gcd(product.k, std::int64_t{options_.unroll});
  const Values sums = loop(index(0), index(product.k), unroll, initial, [&](Value first, ValueRange carried) {
    Values next(carried);
    for (std::int64_t u = 0; u < unroll; ++u) {
      const Value k = add(first, index(u));
      Values b;
      for (const Chunk& chunk : chunks) {
        b.push_back(panel.base ? loadVector(address(panel, f32, k, index(chunk.begin)), f32, chunk.width)
                               : evalF32(product.b, k, add(column, index(chunk.begin)), chunk.width));
      }
      for (int r = 0; r < rows; ++r) {
        const Value a = loadVector(address(product.a, f32, add(row, index(r)), k), f32, 1);
        for (std::size_t c = 0; c < chunks.size(); ++c) {
          Value& sum = next[r * chunks.size() + c];
          sum = multiplyAdd(broadcast(a, chunks[c].width), b[c], sum);
        }
      }
    }
    return next;
  });
  for (int r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < chunks.size(); ++c) storeVector(sums[r * chunks.size() + c], accAddress(r, chunks[c]));
  }
}

/// Transposes a square of vectors in registers: at each step, blocks of 1, 2, 4, ... change sides (Eklundh 1972).
void Emitter::transpose(Values& rows) {
  const auto side = static_cast<std::int64_t>(rows.size());
  for (std::int64_t step = 1; step < side; step *= 2) {
    for (std::int64_t r = 0; r < side; ++r) {
      if ((r & step) != 0) continue;
      llvm::SmallVector<std::int64_t> low, high;
      for (std::int64_t j = 0; j < side; ++j) {
        const bool isOdd = (j & step) != 0;
        low.push_back(isOdd ? side + j - step : j);
        high.push_back(isOdd ? side + j : j + step);
      }
      const Value upper = rows[r], lower = rows[r + step];
      rows[r] = shuffle(upper, lower, low);
      rows[r + step] = shuffle(upper, lower, high);
    }
  }
}

}  // namespace tilewright::tile
