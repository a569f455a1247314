// Element types and their host-side conversions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tilewright {

enum class DType : std::uint8_t { kF32, kF16, kBf16, kE4m3, kS8, kS32 };

constexpr int dtypeBytes(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kS32:
      return 4;
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kE4m3:
    case DType::kS8:
      return 1;
  }
  return 0;
}

constexpr std::string_view dtypeName(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kE4m3:
      return "e4m3";
    case DType::kS8:
      return "s8";
    case DType::kS32:
      return "s32";
  }
  return "unknown";
}

/// A BF16 value as its 16 bits.
struct Bf16 {
  std::uint16_t bits;
};

inline float toFloat(Bf16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

/// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline Bf16 toBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

/// An IEEE 754 half-precision value as its 16 bits.
struct F16 {
  std::uint16_t bits;
};

/// Exact, subnormals, infinities and NaN included.
inline float toFloat(F16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000U} << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1f;
  const std::uint32_t mantissa = value.bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

/// Round to nearest, ties to even; from 65520 on infinity; a NaN stays a (quiet) NaN.
inline F16 toF16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto signedBits = [sign](std::uint32_t half) { return F16{static_cast<std::uint16_t>(sign | half)}; };
  if (magnitude > 0x7f800000) return signedBits(0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return signedBits(0x7c00);
  if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return signedBits(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000);
  }
  return signedBits((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13);
}

}  // namespace tilewright
