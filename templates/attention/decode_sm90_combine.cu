// attention.decode_sm90, second kernel: adds the parts of each tile, in the order of the line (decode_sm90_split.cuh).
//
//   out[row] = sum_i 2^(c (max_i - max)) O_i[row] / sum_i 2^(c (max_i - max)) sum_i,   c = scale * log2(e)
//
// One CTA per packed row and tile; its warps take every eighth part each. It is launched early, and works out where the
// parts are while the first kernel still runs. The order of additions depends on the lengths alone, so results repeat
// bit by bit.
#include "templates/attention/decode_sm90_split.cuh"
#include "templates/attention/online_softmax.cuh"
#include "templates/common/numeric.cuh"
#include "templates/common/warp_control.cuh"

// Parameters: kHeadDim, kLogSumExp, kRowTile and kTileN as in decode_sm90.cu, where they are explained.

namespace tilewright {

constexpr int kCombineThreads = 256;

// Adds the parts of one packed row of one tile, in the order of the line. Grid [tiles, packed rows].
extern "C" __global__ void __launch_bounds__(kCombineThreads)
    attention_decode_sm90_combine(const __grid_constant__ Params p) {
  constexpr int kCombineWarps = kCombineThreads / 32, kColumns = kHeadDim / 32;  // columns of a lane
  __shared__ float added[kCombineWarps][kHeadDim];
  const int tile = blockIdx.x, row = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Split split(p);
  const TileRange range = split.rangeOf(tile);
  const int first = split.pieceAt(range.begin), last = split.pieceAt(range.begin + range.blocks - 1);
  waitForPreviousKernel();
  if (first == last || row >= rowsOf(p, tile)) return;

  // The slot of part i: the first part begins the tile.
  const auto slot = [&](int i) { return p.partials + static_cast<I64>(2 * (first + i) + (i == 0)) * kSlotFloats; };
  const auto maximumOf = [&](int i) { return slot(i)[kRowTile * kHeadDim + row]; };
  const int parts = last - first + 1;

  // Every warp finds the common maximum and the sum.
  float top = -kInfinity, sum = 0.0f;
  for (int i = lane; i < parts; i += 32) top = fmaxf(top, maximumOf(i));
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, step));
  const float finite = top == -kInfinity ? 0.0f : top;
  const auto weightOf = [&](int i) { return exp2Fast((maximumOf(i) - finite) * p.scaleLog2); };
  for (int i = lane; i < parts; i += 32) sum += slot(i)[kRowTile * (kHeadDim + 1) + row] * weightOf(i);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kFullWarp, sum, step);

  // Each warp adds every eighth part, then the warps' sums are added in order.
  float o[kColumns] = {};
#pragma unroll 4
  for (int i = warp; i < parts; i += kCombineWarps) {
    const float weight = weightOf(i);
    const float* line = slot(i) + row * kHeadDim + lane;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) o[j] += weight * line[j * 32];
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) added[warp][j * 32 + lane] = o[j];
  __syncthreads();
  const PackedRow at(p, tile, row);
  const int column = threadIdx.x * 4;
  if (column < kHeadDim) {
    float4 total{0.0f, 0.0f, 0.0f, 0.0f};
    for (int j = 0; j < kCombineWarps; ++j) {
      const float4 each = *reinterpret_cast<const float4*>(&added[j][column]);
      total.x += each.x, total.y += each.y, total.z += each.z, total.w += each.w;
    }
    storeColumns(at.out(p), column, total, sum);
  }
  if (kLogSumExp && threadIdx.x == 0) *at.lse(p) = logSumExp(top, sum, p.scaleLog2);
}

}  // namespace tilewright
