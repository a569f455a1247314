// Fixed-width types and the few compile-time helpers that kernels need: NVRTC brings no header, not even stdint.h.
//
// Vector types (uint2, float4, ...) are the compiler's own. BF16 and half values travel as bits: one in a U16, two in a
// U32, the element of the lower index in the low half.
#pragma once

namespace tilewright {

using I8 = signed char;
using U8 = unsigned char;
using U16 = unsigned short;
using I32 = int;
using U32 = unsigned int;
using I64 = long long;
using U64 = unsigned long long;

static_assert(sizeof(I32) == 4 && sizeof(I64) == 8 && sizeof(void*) == 8, "an LP64 device");

/// A tensor map as a kernel's `const __grid_constant__` parameter; the driver encodes its bytes.
struct alignas(64) TensorMapParameter {
  char bytes[128];
};

template <bool kCondition, typename A, typename B>
struct ConditionalType {
  using Type = A;
};
template <typename A, typename B>
struct ConditionalType<false, A, B> {
  using Type = B;
};
template <bool kCondition, typename A, typename B>
using Conditional = typename ConditionalType<kCondition, A, B>::Type;

constexpr __host__ __device__ int ceilDiv(int a, int b) {
  return (a + b - 1) / b;
}
constexpr __host__ __device__ int roundUp(int a, int b) {
  return ceilDiv(a, b) * b;
}

}  // namespace tilewright
