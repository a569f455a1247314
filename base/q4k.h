// Q4_K, GGUF's 4-bit format: a super-block holds 256 weights in 144 bytes, in 8 sub-blocks of 32.
//
//   weight[j][l] = d * scale[j] * q[j][l] - dmin * min[j]        j = 0..7, l = 0..31, q = 0..15
//
// d and dmin are half precision; the 6-bit scale[j] and min[j] share 12 bytes: byte j (j < 4) holds scale[j] and the
// two high bits of scale[j + 4], byte j + 4 the same of the mins, byte j + 8 the low four bits of scale[j + 4] and
// min[j + 4]. The nibbles of sub-blocks 2c and 2c + 1 share bytes 32c to 32c + 31: the even sub-block has the low
// nibbles.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tilewright {

struct Q4kBlock {
  static constexpr int kWeights = 256;
  static constexpr int kSubBlocks = 8;
  static constexpr int kSubBlockWeights = 32;

  F16 d;     ///< step of the scales; a file may hold any half: negative, infinite or NaN included
  F16 dmin;  ///< step of the mins; likewise
  std::array<std::uint8_t, 12> scales;
  std::array<std::uint8_t, 128> quants;
};
static_assert(sizeof(Q4kBlock) == 144 && alignof(Q4kBlock) == 2);

/// The 6-bit scales and mins of a super-block, each from 0 to 63.
struct Q4kScales {
  std::array<std::uint8_t, 8> scale{};
  std::array<std::uint8_t, 8> min{};

  bool operator==(const Q4kScales&) const = default;
};

Q4kScales unpackScales(const std::array<std::uint8_t, 12>& packed);
std::array<std::uint8_t, 12> packScales(const Q4kScales& scales);

/// The 256 weights in FP32, each as (d * scale) * q - dmin * min in this order of operations, every operation rounded.
/// Any bits give what IEEE arithmetic gives: a negative d mirrors the weights, an infinite or NaN d or dmin makes NaN
/// or infinite weights, and d = 0 leaves the weight -dmin * min.
void dequantize(const Q4kBlock& block, std::span<float, Q4kBlock::kWeights> weights);

/// The super-block that is nearest to 256 finite weights as far as a search finds it: root-mean-square error about 7 %
/// of a Gaussian row's. d and dmin come out finite and not negative; weights beyond 65504 * 63 * 15 saturate.
Q4kBlock quantize(std::span<const float, Q4kBlock::kWeights> weights);

}  // namespace tilewright
