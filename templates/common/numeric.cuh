// Conversions and packed arithmetic on half, BF16 and E4M3 values, which travel as bits (see types.cuh).
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

/// 2^x and log2(x), relative (near 1: absolute) error at most about 2^-22; exp2Fast(-inf) is 0.
__device__ __forceinline__ float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2Fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float bf16ToFloat(U16 bits) {
  return __uint_as_float(static_cast<U32>(bits) << 16);
}
/// The two BF16 values of a word as floats.
__device__ __forceinline__ float bf16LowToFloat(U32 pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float bf16HighToFloat(U32 pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
/// Round to nearest even; `low` goes to the low half.
__device__ __forceinline__ U32 packBf16(float low, float high) {
  U32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float2 halfPairToFloat(U32 pair) {
  float2 v;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(v.x), "=f"(v.y)
      : "r"(pair));
  return v;
}
__device__ __forceinline__ U32 packHalf(float low, float high) {
  U32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
/// Both halves become the low (the high) half of `pair`; half-precision arithmetic takes it without an instruction.
__device__ __forceinline__ U32 broadcastLow(U32 pair) {
  U32 v;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low};}" : "=r"(v) : "r"(pair));
  return v;
}
__device__ __forceinline__ U32 broadcastHigh(U32 pair) {
  U32 v;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high};}" : "=r"(v) : "r"(pair));
  return v;
}

__device__ __forceinline__ U32 fmaHalf2(U32 a, U32 b, U32 c) {
  U32 v;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}
/// The larger magnitude of each half, without signs.
__device__ __forceinline__ U32 maxAbsBf162(U32 a, U32 b) {
  U32 v;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a & 0x7fff7fffu), "r"(b & 0x7fff7fffu));
  return v;
}

/// Two values rounded to E4M3, saturating at 448; `low` goes to the low byte.
__device__ __forceinline__ U16 packE4m3(float low, float high) {
  U16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
/// Two words of two halves each, rounded to E4M3: a's to the low bytes.
__device__ __forceinline__ U32 packE4m3FromHalf(U32 a, U32 b) {
  U32 v;
  asm("{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f16x2 low, %1; cvt.rn.satfinite.e4m3x2.f16x2 high, %2;"
      " mov.b32 %0, {low, high};}"
      : "=r"(v)
      : "r"(a), "r"(b));
  return v;
}

/// (w & kMask) | bits in one LOP3. `bits` must sit in a register (see inRegister), or the compiler spends two.
template <U32 kMask>
__device__ __forceinline__ U32 andOr(U32 w, U32 bits) {
  U32 v;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(v) : "r"(w), "n"(kMask), "r"(bits));
  return v;
}
/// A constant that the compiler must keep in a register.
__device__ __forceinline__ U32 inRegister(U32 constant) {
  U32 v;
  asm volatile("mov.b32 %0, %1;" : "=r"(v) : "r"(constant));
  return v;
}

}  // namespace tilewright
