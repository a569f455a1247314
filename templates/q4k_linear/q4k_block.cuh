// A Q4_K super-block as it lies in a GGUF file: 256 weights of one row in 144 bytes.
//
//   byte 0   d, dmin (half)          weight of sub-block j (32 weights): d sc[j] q - dmin mn[j]
//   byte 4   8 six-bit scales sc and minimums mn in 12 bytes: bytes 0-3 and 4-7 hold sc[0..3] and mn[0..3] in their low
//   six
//            bits; byte 8 + i holds the low four bits of sc[4 + i] and mn[4 + i], whose high two are the top two of
//            byte i and of byte 4 + i
//   byte 16  128 bytes of nibbles: byte 32 c + i holds weight 64 c + i (low nibble) and 64 c + 32 + i (high nibble)
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

constexpr int kBlockWeights = 256;
constexpr int kBlockBytes = 144;
constexpr int kWordBlocks = 16;    // super-blocks of a word of outlier flags, four bits each for its chunks of 64 k
constexpr int kNibbleOffset = 16;  // bytes

/// The factors of one super-block: byte j % 4 of word j / 4 belongs to sub-block j.
struct BlockFactors {
  U32 scales[2];
  U32 minimums[2];
  float d, dmin;

  __device__ __forceinline__ float scale(int j) const {
    return d * static_cast<float>(scales[j / 4] >> (j % 4 * 8) & 255);
  }
  __device__ __forceinline__ float minimum(int j) const {
    return dmin * static_cast<float>(minimums[j / 4] >> (j % 4 * 8) & 255);
  }
};

/// The factors from the first 16 bytes of a super-block; d and dmin are multiplied by `factor`.
__device__ __forceinline__ BlockFactors unpackFactors(uint4 header, float factor) {
  BlockFactors f;
  f.scales[0] = header.y & 0x3f3f3f3fu;
  f.scales[1] = (header.w & 0x0f0f0f0fu) | ((header.y >> 2) & 0x30303030u);
  f.minimums[0] = header.z & 0x3f3f3f3fu;
  f.minimums[1] = ((header.w >> 4) & 0x0f0f0f0fu) | ((header.z >> 2) & 0x30303030u);
  const float2 factors = halfPairToFloat(header.x);
  f.d = factors.x * factor;
  f.dmin = factors.y * factor;
  return f;
}

}  // namespace tilewright
