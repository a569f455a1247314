// The activations of small_m_sm90.cu: s8 with a scale for each 32 k, s = max |x| / 127, in one piece of memory for each
// 256 k and group of 8 tokens.
//
//   byte 0     [sub-block 8][lane 32] 8 bytes: the B fragment of lane 4 g + t, token g, k = 4 t .. 4 t + 3 and 16
//   further byte 2048  [sub-block][token] scales, FP32 byte 2304  [sub-block][token] scale times the sum of the 32
//   quantized values, rounded to tf32
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

constexpr int kScaleOffset = 2048;
constexpr int kSumOffset = 2304;
constexpr int kGroupBytes = 2560;

__device__ __forceinline__ float roundToTf32(float v) {
  U32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return __uint_as_float(bits);
}

/// Quantizes 256 k of one token, 8 values a lane of a warp, into its group's piece.
__device__ __forceinline__ void quantizePiece(U8* piece, uint4 v, int token) {
  const int lane = threadIdx.x % 32;

  // The sub-block's maximum over its four lanes.
  const U32 top = maxAbsBf162(maxAbsBf162(v.x, v.y), maxAbsBf162(v.z, v.w));
  float peak = fmaxf(bf16LowToFloat(top), bf16HighToFloat(top));
  peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, 1));
  peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, 2));
  const float inverse = peak > 0.0f ? 127.0f / peak : 0.0f, scale = peak / 127.0f;

  // Quantize: the low byte of 1.5 2^23 + v is v rounded to nearest.
  const U32 pairs[4] = {v.x, v.y, v.z, v.w};
  U32 words[2];
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    constexpr float kRound = 12582912.0f;
    float r[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const U32 pair = pairs[2 * i + e / 2];
      r[e] = fmaf(e % 2 != 0 ? bf16HighToFloat(pair) : bf16LowToFloat(pair), inverse, kRound);
      sum += r[e] - kRound;
    }
    words[i] = __byte_perm(__byte_perm(__float_as_uint(r[0]), __float_as_uint(r[1]), 0x0040),
                           __byte_perm(__float_as_uint(r[2]), __float_as_uint(r[3]), 0x0040), 0x5410);
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);

  // Lane 4 j + s holds k = 8 s .. 8 s + 7 of sub-block j: fragments t = 2 s and 2 s + 1 (mod 4), first or second word.
  const int j = lane / 4, s = lane % 4, g = token % 8;
  U32* fragment = reinterpret_cast<U32*>(piece + j * 256 + (g * 4 + 2 * s % 4) * 8) + s / 2;
  fragment[0] = words[0];
  fragment[2] = words[1];
  if (s == 0) {
    reinterpret_cast<float*>(piece + kScaleOffset)[j * 8 + g] = scale;
    reinterpret_cast<float*>(piece + kSumOffset)[j * 8 + g] = roundToTf32(scale * sum);
  }
}

}  // namespace tilewright
