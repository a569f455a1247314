// out[m, n] = x[m, k] . w[n, k]^T (+ bias[n]): one program computes a [tile_m, tile_n] block of out, over k in steps of
// tile_k, accumulating in f32. Program ids: (block of rows, block of columns).
#include "compiler/tile/programs.h"

namespace tilewright::tile {

void buildLinearPortable(Program& p) {
  const std::int64_t tileM = p.parameter("tile_m", 1, 1024);
  const std::int64_t tileN = p.parameter("tile_n", 1, 1024);
  const std::int64_t tileK = p.parameter("tile_k", 1, 1024);
  const bool hasBias = p.parameter("bias", 0, 1) == 1;

  const Value x = p.pointerArgument(), w = p.pointerArgument(), bias = p.pointerArgument(), out = p.pointerArgument();
  const Value m = p.indexArgument(), n = p.indexArgument(), k = p.indexArgument();
  const Value xStride = p.indexArgument(), outStride = p.indexArgument();
  const Value m0 = p.programId(0) * tileM, n0 = p.programId(1) * tileN;

  Value acc = p.loop(0, k, tileK, {p.full({tileM, tileN}, 0)}, [&](Value k0, std::span<const Value> carried) {
    const Value xTile = p.load(Element::kBf16, {tileM, tileK}, {x, {m0, k0}, {m, k}, {xStride, 1}});
    const Value wTile = p.load(Element::kBf16, {tileN, tileK}, {w, {n0, k0}, {n, k}, {k, 1}});
    return std::vector{p.dotTransposed(xTile, wTile, carried[0])};
  })[0];
  if (hasBias) {
    const Value row = p.convert(p.load(Element::kBf16, {tileN}, {bias, {n0}, {n}, {1}}), Element::kF32);
    acc = acc + p.broadcastRows(row, tileM);
  }
  p.store(p.convert(acc, Element::kBf16), {out, {m0, n0}, {m, n}, {outStride, 1}});
}

}  // namespace tilewright::tile
