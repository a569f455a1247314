// From nibbles to the A registers of wgmma.
//
// s8 and e4m3, 13 instructions for 8 weights. With s = d sc / r and o = base - shift s - dmin mn / r in half precision
// (base 1280 and shift 112 for s8, 0 and 64 for e4m3), two weights of a word at a time:
//
//   (w & 0x00f000f0) | 0x57005700 = (112 + q0, 112 + q2)      a half's mantissa bits 4 to 7 are worth 1 to 8 there
//   * s + o                       = (1280 + v0, 1280 + v2)    s8: the low byte of each half is v, rounded to nearest
//
// The other nibbles come the same way from w << 4, w >> 4 and w >> 8; one PRMT packs four bytes (e4m3: two
// conversions). The rounding of o is common to a sub-block, so o should be small: 112 s is close to 1280 for common
// scales, and 64 is the least shift. |v| is at most 126 before rounding: where d is negative o errs by up to 1, and a
// byte must not wrap.
//
// bf16, 3 instructions a weight: a nibble at bit 12 (16) of an FP32 mantissa below the exponent of 2048 (128) is worth
// q; one FFMA with s and o = -dmin mn - 2048 s (128 s), exact to 2^-13 s, one pack for two.
//
// Word 32 c + 4 (lane % 4) of a row's nibbles, and the one 16 bytes further, are the s8 fragments of k32 steps 2 c and
// 2 c + 1 in the file's own order; bf16 takes pairs of bytes 2 (lane % 4), for its k16 steps hold two k a word.
#pragma once

#include "templates/q4k_linear/fused_sm90_layout.cuh"

namespace tilewright {

// Constants that must sit in registers (see andOr).
struct ConvertConstants {
  U32 halfShift = inRegister(kIsS8 ? 0x57005700 : 0x54005400);  // kShift, twice
};

constexpr float kBase = kIsS8 ? 1280.0f : 0.0f;
constexpr float kShift = kIsS8 ? 112.0f : 64.0f;

/// s and o of sub-blocks 2 c (low half) and 2 c + 1 (high half).
__device__ __forceinline__ uint2 factorsHalf(const BlockFactors& f, int c) {
  const U32 s = packHalf(f.scale(2 * c), f.scale(2 * c + 1));
  const float2 rounded = halfPairToFloat(s);
  return {s, packHalf(fmaf(-kShift, rounded.x, kBase - f.minimum(2 * c)),
                      fmaf(-kShift, rounded.y, kBase - f.minimum(2 * c + 1)))};
}

/// The fragments of chunk c for two rows 8 apart. `piece` is the first row's super-block plus 4 (lane % 4) bytes.
__device__ __forceinline__ void convertChunk(U32 (&a)[2][4], const ConvertConstants& constants, U32 piece,
                                             const uint2 (&factors)[2], int c) {
  U32 words[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int p = 0; p < 2; ++p) words[i][p] = loadShared(piece + i * 8 * kBlockBytes + kNibbleOffset + 32 * c + 16 * p);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const U32 sLow = broadcastLow(factors[i].x), sHigh = broadcastHigh(factors[i].x);
    const U32 oLow = broadcastLow(factors[i].y), oHigh = broadcastHigh(factors[i].y);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const U32 w = words[i][p];
      const U32 v0 = fmaHalf2(andOr<0x00f000f0>(w << 4, constants.halfShift), sLow, oLow);  // low nibbles of bytes 0, 2
      const U32 v1 = fmaHalf2(andOr<0x00f000f0>(w >> 4, constants.halfShift), sLow, oLow);  // of bytes 1, 3
      const U32 v2 = fmaHalf2(andOr<0x00f000f0>(w, constants.halfShift), sHigh, oHigh);     // high nibbles
      const U32 v3 = fmaHalf2(andOr<0x00f000f0>(w >> 8, constants.halfShift), sHigh, oHigh);
      if constexpr (kIsS8) {
        a[0][2 * p + i] = __byte_perm(v0, v1, 0x6240);
        a[1][2 * p + i] = __byte_perm(v2, v3, 0x6240);
      } else {  // the bytes' order is 0, 2, 1, 3, as the activations' (quantize.cu)
        a[0][2 * p + i] = packE4m3FromHalf(v0, v1);
        a[1][2 * p + i] = packE4m3FromHalf(v2, v3);
      }
    }
  }
}

/// The same with bf16: `piece` is the row's super-block plus 2 (lane % 4) bytes, a factor is s and o of the low and of
/// the high nibbles.
__device__ __forceinline__ void convertChunk(U32 (&a)[4][4], U32 piece, const float4 (&factors)[2], int c) {
  constexpr U32 kLow = 0x45000000, kHigh = 0x43000000;  // 2048, whose bit 12 is worth 1, and 128, whose bit 16 is
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 f = factors[i];
#pragma unroll
    for (int p = 0; p < 4; ++p) {  // bytes 8 p + 2 (lane % 4) and the next
      const U32 v = loadShared16(piece + i * 8 * kBlockBytes + kNibbleOffset + 32 * c + 8 * p);
      const U32 byte0 = v << 12, byte1 = v << 4;
      const float low0 = __uint_as_float((byte0 & 0x0000f000) | kLow),
                  low1 = __uint_as_float((byte1 & 0x0000f000) | kLow);
      const float high0 = __uint_as_float((byte0 & 0x000f0000) | kHigh);
      const float high1 = __uint_as_float((byte1 & 0x000f0000) | kHigh);
      const int word = 2 * (p % 2) + i;
      a[p / 2][word] = packBf16(fmaf(low0, f.x, f.y), fmaf(low1, f.x, f.y));
      a[2 + p / 2][word] = packBf16(fmaf(high0, f.z, f.w), fmaf(high1, f.z, f.w));
    }
  }
}

/// s and o of both sub-blocks of chunk c for bf16.
__device__ __forceinline__ float4 factorsBf16(const BlockFactors& f, int c) {
  const float low = f.scale(2 * c), high = f.scale(2 * c + 1);
  return {low, fmaf(-2048.0f, low, -f.minimum(2 * c)), high, fmaf(-128.0f, high, -f.minimum(2 * c + 1))};
}

}  // namespace tilewright
