// Warp-wide matrix products on BF16 that run on every GPU from sm_75 on: mma.sync where BF16 has it (sm_80), the same
// fragments multiplied with shuffles and FP32 arithmetic before.
//
// Fragments of m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): lane = 4 g + t holds
//   A (16 x 16): a[0] = (g, 2t..2t+1), a[1] = (g + 8, same), a[2] and a[3] = the same 8 columns on
//   B (16 x 8):  b[0] = (2t..2t+1, g), b[1] = the same 8 rows on
//   D (16 x 8):  d[0..1] = (g, 2t..2t+1), d[2..3] = (g + 8, same)
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

/// Round to nearest even; a NaN stays NaN.
__device__ __forceinline__ U32 roundToBf16(float value) {
  const U32 bits = __float_as_uint(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

/// packBf16 for every architecture.
__device__ __forceinline__ U32 packBf16Anywhere(float low, float high) {
#if __CUDA_ARCH__ >= 800
  return packBf16(low, high);
#else
  return roundToBf16(low) | (roundToBf16(high) << 16);
#endif
}

__device__ __forceinline__ U32 sharedAddress32(const void* pointer) {
  return static_cast<U32>(__cvta_generic_to_shared(pointer));
}

/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8 (16-byte aligned).
__device__ __forceinline__ void loadMatrices(U32 (&to)[4], const U16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress32(row))
               : "memory");
}
__device__ __forceinline__ void loadMatricesTransposed(U32 (&to)[4], const U16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress32(row))
               : "memory");
}

#if __CUDA_ARCH__ < 800
/// d + A B with shuffles. A call, not inlined: kernels multiply hundreds of fragments in unrolled loops.
__device__ __noinline__ float4 multiplyFragments(float4 d, uint4 a, U32 b0, U32 b1) {
  const int lane = threadIdx.x % 32, group = lane / 4 * 4, column = lane % 4 * 2 * 4;
#pragma unroll 1
  for (int t = 0; t < 4; ++t) {
    // Columns 2t, 2t + 1 (and 8 more) of A's two rows, and these rows of B's two columns.
    const U32 top[2] = {__shfl_sync(0xffffffff, a.x, group + t), __shfl_sync(0xffffffff, a.z, group + t)};
    const U32 bottom[2] = {__shfl_sync(0xffffffff, a.y, group + t), __shfl_sync(0xffffffff, a.w, group + t)};
    const U32 left[2] = {__shfl_sync(0xffffffff, b0, column + t), __shfl_sync(0xffffffff, b1, column + t)};
    const U32 right[2] = {__shfl_sync(0xffffffff, b0, column + 4 + t), __shfl_sync(0xffffffff, b1, column + 4 + t)};
    const auto dot = [](const U32(&x)[2], const U32(&y)[2]) {
      return bf16LowToFloat(x[0]) * bf16LowToFloat(y[0]) + bf16HighToFloat(x[0]) * bf16HighToFloat(y[0]) +
             bf16LowToFloat(x[1]) * bf16LowToFloat(y[1]) + bf16HighToFloat(x[1]) * bf16HighToFloat(y[1]);
    };
    d.x += dot(top, left), d.y += dot(top, right), d.z += dot(bottom, left), d.w += dot(bottom, right);
  }
  return d;
}
#endif

/// d += A B.
__device__ __forceinline__ void mmaBf16(float (&d)[4], const U32 (&a)[4], U32 b0, U32 b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const float4 sum = multiplyFragments(make_float4(d[0], d[1], d[2], d[3]), make_uint4(a[0], a[1], a[2], a[3]), b0, b1);
  d[0] = sum.x, d[1] = sum.y, d[2] = sum.z, d[3] = sum.w;
#endif
}

/// The same for the sums d[at] to d[at + 3] of a larger array; `at` must be a constant after unrolling.
template <int kCount>
__device__ __forceinline__ void mmaBf16At(float (&d)[kCount], int at, const U32 (&a)[4], U32 b0, U32 b1) {
  mmaBf16(reinterpret_cast<float (&)[4]>(d[at]), a, b0, b1);
}

}  // namespace tilewright
