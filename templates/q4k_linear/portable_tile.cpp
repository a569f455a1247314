// out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in GGUF Q4_K: one program computes a [tile_m, tile_n] block of
// out, over k one super-block (256 weights, 144 bytes) at a time. Program ids: (block of rows, block of columns).
//
//   bytes   0  f16 d      2  f16 dmin     4  12 bytes: 8 scales, 8 minimums of 6 bits     16  128 bytes of nibbles
//   weight (32 j + l) = d scale[j] q - dmin minimum[j], q from byte 32 (j / 2) + l, the high nibble where j is odd
//
// Weights stay in f32: the products are those of the exact dequantization.
#include "compiler/tile/programs.h"

namespace tilewright::tile {

void buildQ4kLinearPortable(Program& p) {
  constexpr std::int64_t kWeights = 256, kBytes = 144, kHalves = kBytes / 2, kSubBlocks = 8;
  const std::int64_t tileM = p.parameter("tile_m", 1, 1024);
  const std::int64_t tileN = p.parameter("tile_n", 1, 1024);
  p.parameter("tile_k", kWeights, kWeights);
  const bool hasBias = p.parameter("bias", 0, 1) == 1;

  const Value x = p.pointerArgument(), w = p.pointerArgument(), bias = p.pointerArgument(), out = p.pointerArgument();
  const Value m = p.indexArgument(), n = p.indexArgument(), k = p.indexArgument();
  const Value xStride = p.indexArgument(), outStride = p.indexArgument();
  const Value m0 = p.programId(0) * tileM, n0 = p.programId(1) * tileN;
  const Value superBlocks = k / kWeights;
  const Value rowBytes = superBlocks * kBytes, rowHalves = superBlocks * kHalves;

  Value acc = p.loop(0, superBlocks, 1, {p.full({tileM, tileN}, 0)}, [&](Value block, std::span<const Value> carried) {
    // A factor and an offset for each sub-block of each row: d scale[j] and dmin minimum[j].
    const auto factors = [&](std::int64_t half, Value fields) {
      const Value base = p.advance(w, Element::kF16, block * kHalves + half);
      const Value factor = p.convert(p.load(Element::kF16, {tileN}, {base, {n0}, {n}, {rowHalves}}), Element::kF32);
      return p.broadcastColumns(factor, kSubBlocks) * p.convertUnsigned(fields, Element::kF32);
    };
    const Value firstByte = block * kBytes;
    const auto [scales, minimums] =
        p.unpack6(p.load(Element::kI8, {tileN, 12}, {w, {n0, firstByte + 4}, {n, rowBytes}, {rowBytes, 1}}));
    const Value factor = p.repeatColumns(factors(0, scales), kWeights);
    const Value offset = p.repeatColumns(factors(1, minimums), kWeights);

    const Value bytes = p.load(Element::kI8, {tileN, 128}, {w, {n0, firstByte + 16}, {n, rowBytes}, {rowBytes, 1}});
    const Value q = p.convertUnsigned(p.unpack4(bytes, 32), Element::kF32);
    const Value xTile = p.load(Element::kBf16, {tileM, kWeights}, {x, {m0, block * kWeights}, {m, k}, {xStride, 1}});
    return std::vector{p.dotTransposed(xTile, factor * q - offset, carried[0])};
  })[0];
  if (hasBias) {
    const Value row = p.convert(p.load(Element::kBf16, {tileN}, {bias, {n0}, {n}, {1}}), Element::kF32);
    acc = acc + p.broadcastRows(row, tileM);
  }
  p.store(p.convert(acc, Element::kBf16), {out, {m0, n0}, {m, n}, {outStride, 1}});
}

}  // namespace tilewright::tile
