// The activations of small_m_sm90.cu: one piece of memory for each 256 k and group of 8 tokens.
//
//   byte 0     [sub-block 8][lane 32] 8 bytes: the B fragment of lane 4 g + t, token g, k = 4 t .. 4 t + 3 and 16
//   further byte 2048  [sub-block][token] scales, FP32 byte 2304  [sub-block][token] scale times the sum of the 32
//   quantized values, rounded to tf32
#pragma once

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

}  // namespace tilewright
