// W of q4k_linear in 8 bits, once: what two_pass_sm90.cu multiplies.
//
//   v[n, i] = round(top w[n, i] / r[n]), r[n] >= |w[n, :]| (row_bounds.cuh), top 126 for s8 and 448 for e4m3
//
// These are the operands that the fused kernel makes in registers, rounded from single instead of half precision. One
// warp per row: bounds from the headers, then a super-block at a time, whose nibbles a second read finds in L2. E4M3
// bytes have the order of the activations' (operand_bytes.cuh).
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/row_bounds.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3).
static_assert(kArithmetic == 0 || kArithmetic == 1, "weights become s8 or e4m3");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr float kTopWeight = kIsS8 ? 126.0f : 448.0f;

/// Four weights from the low nibbles of a word's bytes: scale q - minimum.
__device__ __forceinline__ U32 expand4(U32 nibbles, float scale, float minimum) {
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = fmaf(static_cast<float>(nibbles >> 8 * i & 15), scale, -minimum);
  return packOperands<kIsS8>(v[0], v[1], v[2], v[3]);
}

}  // namespace tilewright

using namespace tilewright;

/// Bounds and inverses are [nPadded], values [n, blocks, 256] bytes.
extern "C" __global__ void __launch_bounds__(256)
    q4kExpand(const U8* w, float* bounds, float* inverses, U32* values, int n, int nPadded, int blocks) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= nPadded) return;
  const U8* source = w + static_cast<I64>(row) * blocks * kBlockBytes;
  const float bound = row < n ? rowBound(source, blocks) : 0.0f;
  storeBound(bounds, inverses, row, bound);
  if (row >= n) return;

  // Lane 8 c + i takes word i of chunk c: its low nibbles are weights of sub-block 2 c, its high ones of 2 c + 1.
  const float factor = bound > 0.0f ? kTopWeight / bound : 0.0f;
  const int c = lane / 8;
  U32* target = values + static_cast<I64>(row) * blocks * (kBlockWeights / 4) + 16 * c + lane % 8;
#pragma unroll 4
  for (int b = 0; b < blocks; ++b) {
    const U8* block = source + b * kBlockBytes;
    const BlockFactors f = unpackFactors(*reinterpret_cast<const uint4*>(block), factor);
    const U32 word = *reinterpret_cast<const U32*>(block + kNibbleOffset + 4 * lane);
    target[b * (kBlockWeights / 4)] = expand4(word, f.scale(2 * c), f.minimum(2 * c));
    target[b * (kBlockWeights / 4) + 8] = expand4(word >> 4, f.scale(2 * c + 1), f.minimum(2 * c + 1));
  }
}
