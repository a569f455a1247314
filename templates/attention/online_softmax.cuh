// One step of the online softmax, on the accumulators of S = Q K^T as wgmma and mma.sync leave them.
//
//   p = exp2(s * c - max * c),  c = scale * log2(e)          one FFMA and one MUFU per score
//
// A thread holds two rows, lane / 4 and lane / 4 + 8 of its warp's sixteen, and shares them with the three other
// threads of its quad: maxima are exchanged, sums stay per thread until the tile ends. The reference maximum of a row
// moves only when it grew by more than kRescaleThreshold (in log2 units), so that O is almost never rescaled; P up to
// 2^8 costs nothing, for BF16's precision does not depend on magnitude, and the FP32 sums have the range.
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/types.cuh"
#include "templates/common/warp_control.cuh"

namespace tilewright {

struct SoftmaxRows {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.0f, 0.0f};
};

// s -> p in place. Score s[4 g + 2 r + e] is key 8 g + e of row r (relative to the thread's first column); with kMask,
// keys beyond limit[r] are hidden. Returns true, to the whole warp, when O must be multiplied by `factor`.
template <bool kMask, int kCount>
__device__ __forceinline__ bool softmaxStep(float (&s)[kCount], SoftmaxRows& rows, float (&factor)[2], float c,
                                            int limit0, int limit1) {
  constexpr int kGroups = kCount / 4;
  if constexpr (kMask) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (g * 8 + e > limit0) s[g * 4 + e] = -kInfinity;
        if (g * 8 + e > limit1) s[g * 4 + 2 + e] = -kInfinity;
      }
    }
  }

  // The maximum of each row over the quad.
  float top[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top0 = s[r * 2], top1 = s[r * 2 + 1];
#pragma unroll
    for (int g = 1; g < kGroups; ++g) {
      top0 = fmaxf(top0, s[g * 4 + r * 2]);
      top1 = fmaxf(top1, s[g * 4 + r * 2 + 1]);
    }
    top0 = fmaxf(top0, top1);
    top0 = fmaxf(top0, __shfl_xor_sync(kFullWarp, top0, 1));
    top[r] = fmaxf(fmaxf(top0, __shfl_xor_sync(kFullWarp, top0, 2)), rows.max[r]);
  }

  // NOTE: the factor of a maximum that stays must be exactly 1: exp2((old - new) * c), not exp2(fma(old, c, -new * c)),
  // whose rounding drifts by 0.4 % over a thousand blocks.
  bool moved = true;
  if constexpr (kRescaleThreshold > 0) {
    moved = __any_sync(
        kFullWarp, (top[0] - rows.max[0]) * c > kRescaleThreshold || (top[1] - rows.max[1]) * c > kRescaleThreshold);
  }
  if (moved) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float finite = kMask && top[r] == -kInfinity ? 0.0f : top[r];
      factor[r] = exp2Fast((rows.max[r] - finite) * c);
      rows.max[r] = top[r];
      rows.sum[r] *= factor[r];
    }
  }

  float offset[2], part[2][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    offset[r] = kMask && rows.max[r] == -kInfinity ? 0.0f : -rows.max[r] * c;
    part[r][0] = rows.sum[r], part[r][1] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = i / 2 % 2;
    s[i] = exp2Fast(fmaf(s[i], c, offset[r]));
    part[r][i % 2] += s[i];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] = part[r][0] + part[r][1];
  return moved;
}

// P as A fragments of the next product, 16 keys each: the accumulator's layout is the fragment's.
template <int kCount>
__device__ __forceinline__ void packScores(U32 (&packed)[kCount / 8][4], const float (&s)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) packed[i / 4][i % 4] = packBf16(s[2 * i], s[2 * i + 1]);
}

template <int kCount>
__device__ __forceinline__ void scaleRows(float (&o)[kCount], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= factor[i / 2 % 2];
}

// The log-sum-exp, natural logarithm, of a row whose sum over all its keys is `sum`; -inf for a row without keys.
__device__ __forceinline__ float logSumExp(float maximum, float sum, float c) {
  constexpr float kLn2 = 0.693147180559945f;
  return sum == 0.0f ? -kInfinity : (maximum * c + log2Fast(sum)) * kLn2;
}

}  // namespace tilewright
