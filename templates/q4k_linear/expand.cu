// W of q4k_linear in 8 bits, once: what two_pass_sm90.cu multiplies.
//
//   v[n, i] = round(top w[n, i] / r[n]), r[n] >= |w[n, :]| (row_bounds.cuh), top 126 for s8 and 448 for e4m3
//
// These are the operands that the fused kernel makes in registers, rounded from single instead of half precision. One
// block per row: its bound from the headers, then a super-block per half a warp at a time. E4M3 bytes have the order of
// the activations' (operand_bytes.cuh).
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/row_bounds.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3).
static_assert(kArithmetic == 0 || kArithmetic == 1, "weights become s8 or e4m3");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr float kTopWeight = kTopOperand<kIsS8>;
constexpr int kExpandWarps = 4, kExpandThreads = kExpandWarps * 32;

/// The factors of a lane's two sub-blocks, for nibbles that lie at bit 16 of an FP32 mantissa under the exponent of
/// 128, which makes 128 + q of them: s and -minimum - 128 s.
struct LaneFactors {
  float s[2], o[2];

  __device__ __forceinline__ LaneFactors(const BlockFactors& f, int chunk) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      s[i] = f.scale(2 * chunk + i);
      o[i] = fmaf(-128.0f, s[i], -f.minimum(2 * chunk + i));
    }
  }
};

/// Four weights from the low (i = 0) or the high nibbles of a word's bytes.
__device__ __forceinline__ U32 expand4(U32 word, int i, const LaneFactors& f) {
  const auto weight = [&](U32 nibbleAt16) {
    return fmaf(__uint_as_float((nibbleAt16 & 0x000f0000) | 0x43000000), f.s[i], f.o[i]);
  };
  return i == 0 ? packOperands<kIsS8>(weight(word << 16), weight(word << 8), weight(word), weight(word >> 8))
                : packOperands<kIsS8>(weight(word << 12), weight(word << 4), weight(word >> 4), weight(word >> 12));
}

}  // namespace tilewright

using namespace tilewright;

/// Bounds and inverses are [nPadded], values [n, blocks, 256] bytes. A block per row.
extern "C" __global__ void __launch_bounds__(kExpandThreads)
    q4kExpand(const U8* w, float* bounds, float* inverses, uint2* values, int n, int blocks) {
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

  // Half a warp takes a super-block, its lane 4 c + i the bytes 8 i .. 8 i + 7 of chunk c: their low nibbles are
  // weights of sub-block 2 c, their high ones of 2 c + 1.
  const float factor = bound > 0.0f ? kTopWeight / bound : 0.0f;
  const int half = threadIdx.x / 16, c = lane % 16 / 4, i = lane % 4;
  uint2* target = values + static_cast<I64>(row) * blocks * (kBlockWeights / 8) + 8 * c + i;
  // NOTE: loads of several super-blocks, not through the read-only path, before their stores: the compiler cannot move
  // those behind any of these, and else puts each where it is used. Past the row's end a half repeats the last
  // super-block.
  constexpr int kBatch = 2, kHalves = 2 * kExpandWarps;
#pragma unroll 1
  for (int b = half; b < blocks; b += kBatch * kHalves) {
    uint4 headers[kBatch];
    uint2 words[kBatch];
    int own[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      own[j] = min(b + j * kHalves, blocks - 1);
      const U8* block = source + own[j] * kBlockBytes;
      headers[j] = __ldcg(reinterpret_cast<const uint4*>(block));
      words[j] = __ldcg(reinterpret_cast<const uint2*>(block + kNibbleOffset) + lane % 16);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const LaneFactors f(unpackFactors(headers[j], factor), c);
      uint2* own8 = target + own[j] * (kBlockWeights / 8);
      own8[0] = {expand4(words[j].x, 0, f), expand4(words[j].y, 0, f)};
      own8[4] = {expand4(words[j].x, 1, f), expand4(words[j].y, 1, f)};
    }
  }
}
