// W of q4k_linear in 8 bits, once: what two_pass_sm90.cu multiplies.
//
//   v[n, i] = round(top w[n, i] / r[n]), r[n] >= |w[n, :]| (row_bounds.cuh), top 126 for s8 and 448 for e4m3
//
// These are the operands that the fused kernel makes in registers, rounded from single instead of half precision. One
// block per row: its bound from the headers, then a super-block per warp at a time. E4M3 bytes have the order of the
// activations' (operand_bytes.cuh).
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/row_bounds.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3).
static_assert(kArithmetic == 0 || kArithmetic == 1, "weights become s8 or e4m3");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr float kTopWeight = kIsS8 ? 126.0f : 448.0f;
constexpr int kExpandWarps = 4, kExpandThreads = kExpandWarps * 32;

/// Four weights from the low nibbles of a word's bytes: scale q - minimum.
__device__ __forceinline__ U32 expand4(U32 nibbles, float scale, float minimum) {
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = fmaf(static_cast<float>(nibbles >> 8 * i & 15), scale, -minimum);
  return packOperands<kIsS8>(v[0], v[1], v[2], v[3]);
}

}  // namespace tilewright

using namespace tilewright;

/// Bounds and inverses are [nPadded], values [n, blocks, 256] bytes. A block per row.
extern "C" __global__ void __launch_bounds__(kExpandThreads)
    q4kExpand(const U8* __restrict__ w, float* bounds, float* inverses, U32* __restrict__ values, int n, int blocks) {
  const int row = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) {
    if (threadIdx.x == 0) storeBound(bounds, inverses, row, 0.0f);
    return;
  }
  const U8* source = w + static_cast<I64>(row) * blocks * kBlockBytes;

  __shared__ float peaks[kExpandWarps];
  const float peak = warpMaximum(boundOfBlocks(source, blocks, threadIdx.x, kExpandThreads));
  if (lane == 0) peaks[warp] = peak;
  __syncthreads();
  float bound = 0.0f;
#pragma unroll
  for (int i = 0; i < kExpandWarps; ++i) bound = fmaxf(bound, peaks[i]);
  if (threadIdx.x == 0) storeBound(bounds, inverses, row, bound);

  // Lane 8 c + i takes word i of chunk c: its low nibbles are weights of sub-block 2 c, its high ones of 2 c + 1.
  const float factor = bound > 0.0f ? kTopWeight / bound : 0.0f;
  const int c = lane / 8;
  U32* target = values + static_cast<I64>(row) * blocks * (kBlockWeights / 4) + 16 * c + lane % 8;
#pragma unroll 4
  for (int b = warp; b < blocks; b += kExpandWarps) {
    const U8* block = source + b * kBlockBytes;
    const BlockFactors f = unpackFactors(__ldg(reinterpret_cast<const uint4*>(block)), factor);
    const U32 word = __ldg(reinterpret_cast<const U32*>(block + kNibbleOffset) + lane);
    target[b * (kBlockWeights / 4)] = expand4(word, f.scale(2 * c), f.minimum(2 * c));
    target[b * (kBlockWeights / 4) + 8] = expand4(word >> 4, f.scale(2 * c + 1), f.minimum(2 * c + 1));
  }
}
