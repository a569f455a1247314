// softmax(scale . Q K^T + mask) V with the online softmax: one program computes a tile of query rows against the keys
// that they see, tile_kv at a time, with the largest score, the sum of exponentials and the output of each row carried
// along.
//
//   s = scale . q k^T, -inf where masked        m' = max(m, rows of s)        p = exp(s - m')
//   l' = l exp(m - m') + rows of p              o' = o exp(m - m') + p v      at the end o / l, log-sum-exp m + log l
//
// Rows are query positions of one head, or (pack_heads) the query heads of one KV head at one position, which then
// share every read of K and V. Program ids: (block of rows or position, head or KV head, batch entry). Scores and
// exponentials are f32 throughout. Keys at or beyond the last visible one are not read.
#include <limits>

#include "compiler/tile/programs.h"

namespace tilewright::tile {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Tensor {
  Value base, batch, head, row, column;

  Value at(Program& p, Value entry, Value headIndex, Value rowIndex) const {
    return p.advance(base, Element::kBf16, entry * batch + headIndex * head + rowIndex * row);
  }
};

/// The rows of a program's tile: where they lie, and the query position of the first.
struct Rows {
  std::int64_t count;
  bool packed;
  Value head, kvHead, offset, bound, position;

  Block block(Program& p, const Tensor& tensor, Value entry, std::int64_t headDim) const {
    const Value base = tensor.at(p, entry, head, packed ? position : Value(0));
    return {base, {offset, 0}, {bound, headDim}, {packed ? tensor.head : tensor.row, tensor.column}};
  }
};

/// An index as i32, cut to [least, most]: positions may lie beyond 2^31, but not those within a tile.
Value clampedI32(Program& p, Value index, std::int64_t least, std::int64_t most) {
  return p.toI32(maximum(minimum(index, most), least));
}

}  // namespace

void buildAttentionPortable(Program& p) {
  const std::int64_t headDim = p.parameter("head_dim", 8, 256);
  const std::int64_t group = p.parameter("group", 1, std::int64_t{1} << 40);
  const std::int64_t tileKv = p.parameter("tile_kv", 1, 1024);
  const bool packed = p.parameter("pack_heads", 0, 1) == 1;
  const std::int64_t tileM = packed ? p.parameter("group", 1, 1024) : p.parameter("tile_m", 1, 1024);
  const bool causal = p.parameter("causal", 0, 1) == 1, logSumExp = p.parameter("lse", 0, 1) == 1;

  const Value qBase = p.pointerArgument(), kBase = p.pointerArgument(), vBase = p.pointerArgument();
  const Value outBase = p.pointerArgument(), lse = p.pointerArgument(), kvLen = p.pointerArgument();
  const Value kvLenCount = p.indexArgument();  // batch, or 0 when kv_len is null
  const Value qHeads = p.indexArgument(), qLen = p.indexArgument(), capacity = p.indexArgument();
  const Value scale = p.floatArgument();
  const auto tensorArgument = [&](Value base) {
    const Value batch = p.indexArgument(), head = p.indexArgument(), row = p.indexArgument();
    return Tensor{base, batch, head, row, p.indexArgument()};
  };
  const Tensor q = tensorArgument(qBase), k = tensorArgument(kBase), v = tensorArgument(vBase);
  const Tensor out = tensorArgument(outBase);

  const Value first = p.programId(0), headId = p.programId(1), entry = p.programId(2);
  Rows rows{tileM, packed};
  if (packed) {
    rows.head = headId * group, rows.kvHead = headId;
    rows.offset = 0, rows.bound = group, rows.position = first;
  } else {
    rows.head = headId, rows.kvHead = headId / group;
    rows.offset = first * tileM, rows.bound = qLen, rows.position = rows.offset;
  }

  // Keys that any row of the tile sees: [0, end).
  const Value stored = p.toIndex(p.extract(p.load(Element::kI32, {1}, {kvLen, {entry}, {kvLenCount}, {1}}), 0));
  const Value length = p.select(Value(0) < kvLenCount, minimum(maximum(stored, 0), capacity), capacity);
  Value end = length;
  const Value firstLimit = length - qLen + rows.position + 1;  // of the tile's first row, when causal
  if (causal) {
    const Value lastPosition = packed ? rows.position : minimum(rows.offset + tileM, qLen) - 1;
    end = maximum(minimum(length, length - qLen + lastPosition + 1), 0);
  }

  const Value qTile =
      p.convert(p.load(Element::kBf16, {tileM, headDim}, rows.block(p, q, entry, headDim)), Element::kF32);
  const Value keys = k.at(p, entry, rows.kvHead, 0), values = v.at(p, entry, rows.kvHead, 0);
  const Shape scoreShape{tileM, tileKv}, rowShape{tileM};
  const std::vector<Value> initial{p.full({tileM, headDim}, 0), p.full(rowShape, -kInfinity), p.full(rowShape, 0)};
  const auto result = p.loop(0, end, tileKv, initial, [&](Value n0, std::span<const Value> carried) {
    const Value acc = carried[0], largest = carried[1], sum = carried[2];
    const Shape kvShape{tileKv, headDim};
    const Value kTile = p.load(Element::kBf16, kvShape, {keys, {n0, 0}, {end, headDim}, {k.row, k.column}});
    const Value vTile = p.load(Element::kBf16, kvShape, {values, {n0, 0}, {end, headDim}, {v.row, v.column}});

    Value limit;  // of visible columns of this tile, for each element
    if (causal && !packed) {
      const Value limits = p.splat(rowShape, clampedI32(p, firstLimit - n0, -tileM, tileKv)) + p.iota(rowShape, 0);
      limit = p.broadcastColumns(limits, tileKv);
    } else {
      limit = p.splat(scoreShape, clampedI32(p, end - n0, 0, tileKv));
    }
    const Value products = p.dotTransposed(qTile, kTile, p.full(scoreShape, 0)) * p.splat(scoreShape, scale);
    const Value scores = p.select(p.iota(scoreShape, 1) < limit, products, p.full(scoreShape, -kInfinity));

    // Rows that have seen no key keep -inf, and subtract 0 instead of it.
    const Value larger = maximum(largest, p.maximumOfRows(scores));
    const Value base = p.select(larger == p.full(rowShape, -kInfinity), p.full(rowShape, 0), larger);
    const Value decay = p.exp(largest - base);
    const Value weights = p.exp(scores - p.broadcastColumns(base, tileKv));
    const Value scaled = acc * p.broadcastColumns(decay, headDim);
    return std::vector{p.dot(weights, vTile, scaled), larger, sum * decay + p.sumOfRows(weights)};
  });
  const Value acc = result[0], largest = result[1], sum = result[2];

  const Value isEmpty = sum == p.full(rowShape, 0);
  const Value inverse = p.select(isEmpty, p.full(rowShape, 0), p.full(rowShape, 1) / sum);
  p.store(p.convert(acc * p.broadcastColumns(inverse, headDim), Element::kBf16), rows.block(p, out, entry, headDim));
  if (logSumExp) {
    const Value base =
        p.advance(lse, Element::kF32, (entry * qHeads + rows.head) * qLen + (packed ? rows.position : 0));
    p.store(largest + p.log(sum), {base, {rows.offset}, {rows.bound}, {packed ? qLen : Value(1)}});
  }
}

}  // namespace tilewright::tile
