// Bounds of the weights of a row, from its super-blocks' headers alone: a sub-block's values lie between -dmin mn and
// 15 d sc - dmin mn.
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/q4k_linear/q4k_block.cuh"

namespace tilewright {

/// At least |w| of every weight of a row of `blocks` super-blocks, for all lanes of the warp that calls it.
__device__ __forceinline__ float rowBound(const U8* row, int blocks) {
  float peak = 0.0f;
  for (int b = threadIdx.x % 32; b < blocks; b += 32) {
    const BlockFactors f = unpackFactors(*reinterpret_cast<const uint4*>(row + b * kBlockBytes), 1.0f);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float least = -f.minimum(j), most = fmaf(15.0f, f.scale(j), least);
      peak = fmaxf(peak, fmaxf(fabsf(least), fabsf(most)));
    }
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, d));
  return peak;
}

/// One lane stores a row's bound, and its inverse, 0 for a row of zeros.
__device__ __forceinline__ void storeBound(float* bounds, float* inverses, int row, float bound) {
  if (threadIdx.x % 32 != 0) return;
  bounds[row] = bound;
  inverses[row] = bound > 0.0f ? 1.0f / bound : 0.0f;
}

}  // namespace tilewright
