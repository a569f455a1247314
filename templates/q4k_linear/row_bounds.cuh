// Bounds of the weights of a row, from its super-blocks' headers alone: a sub-block's values lie between -dmin mn and
// 15 d sc - dmin mn.
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/q4k_linear/q4k_block.cuh"

namespace tilewright {

/// At least |w| of every weight of super-blocks first, first + step, ... of a row of `blocks`; of the whole row when
/// the greatest of the values of `step` threads is taken.
__device__ __forceinline__ float boundOfBlocks(const U8* row, int blocks, int first, int step) {
  float peak = 0.0f;
  for (int b = first; b < blocks; b += step) {
    const BlockFactors f = unpackFactors(__ldg(reinterpret_cast<const uint4*>(row + b * kBlockBytes)), 1.0f);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float least = -f.minimum(j), most = fmaf(15.0f, f.scale(j), least);
      peak = fmaxf(peak, fmaxf(fabsf(least), fabsf(most)));
    }
  }
  return peak;
}

/// The greatest value of a warp, none of them negative: their bits order as integers do.
__device__ __forceinline__ float warpMaximum(float v) {
  return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(v)));
}

/// Stores a row's bound, and its inverse, 0 for a row of zeros.
__device__ __forceinline__ void storeBound(float* bounds, float* inverses, int row, float bound) {
  bounds[row] = bound;
  inverses[row] = bound > 0.0f ? 1.0f / bound : 0.0f;
}

}  // namespace tilewright
