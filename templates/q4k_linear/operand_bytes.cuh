// Numbers to the 8-bit operands of a product, four at a time.
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

/// What a row's bound becomes: 126, for s8 must not wrap where a weight is rounded up, or the largest E4M3.
template <bool kIntegers>
constexpr float kTopOperand = kIntegers ? 126.0f : 448.0f;

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: added, it leaves the nearest integer in the low bits

/// Four values to four bytes: integers in order, or E4M3 in the order 0, 2, 1, 3, in which the fused product converts
/// its weights.
template <bool kIntegers>
__device__ __forceinline__ U32 packOperands(float a, float b, float c, float d) {
  if constexpr (kIntegers) {
    const U32 low = __byte_perm(__float_as_uint(a + kRound), __float_as_uint(b + kRound), 0x0040);
    const U32 high = __byte_perm(__float_as_uint(c + kRound), __float_as_uint(d + kRound), 0x0040);
    return __byte_perm(low, high, 0x5410);
  } else {
    return packE4m3(a, c) | static_cast<U32>(packE4m3(b, d)) << 16;
  }
}

}  // namespace tilewright
