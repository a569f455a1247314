// Quantizes activations for small_m_sm90.cu: s8 with a scale for each 32 k, s = max |x| / 127, in the layout of
// small_m_activations.cuh. One warp takes 256 k of one token, 8 values a lane; tokens from m to the end of their group
// become zeros.
#include "templates/common/numeric.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/small_m_activations.cuh"

using namespace tilewright;

struct SmallMQuantizeArguments {
  const uint4* x;   // [m, k] BF16, rows of xStride vectors of 8
  U8* activations;  // [k / 256, token group] of kGroupBytes
  U32* counters;    // to be zeroed for the product
  I64 xStride;      // vectors
  I32 m, blocks, groups, counterCount;
};

extern "C" __global__ void __launch_bounds__(256) quantizeSmallM(const SmallMQuantizeArguments p) {
  letNextKernelStart();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < p.counterCount; i += gridDim.x * 256) p.counters[i] = 0;

  const int lane = threadIdx.x % 32;
  const int item = blockIdx.x * 8 + threadIdx.x / 32;  // token fastest: a block's warps read different rows
  const int token = item % (p.groups * 8), block = item / (p.groups * 8);
  if (block >= p.blocks) return;
  uint4 v = make_uint4(0, 0, 0, 0);
  if (token < p.m) v = p.x[token * p.xStride + block * 32 + lane];

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
  U8* piece = p.activations + (static_cast<I64>(block) * p.groups + token / 8) * kGroupBytes;
  const int j = lane / 4, s = lane % 4, g = token % 8;
  U32* fragment = reinterpret_cast<U32*>(piece + j * 256 + (g * 4 + 2 * s % 4) * 8) + s / 2;
  fragment[0] = words[0];
  fragment[2] = words[1];
  if (s == 0) {
    reinterpret_cast<float*>(piece + kScaleOffset)[j * 8 + g] = scale;
    reinterpret_cast<float*>(piece + kSumOffset)[j * 8 + g] = roundToTf32(scale * sum);
  }
}
