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
    case DType::kS32: return 4;
    case DType::kF16:
    case DType::kBf16: return 2;
    case DType::kE4m3:
    case DType::kS8: return 1;
  }
  return 0;
}

constexpr std::string_view dtypeName(DType type) {
  switch (type) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBf16: return "bf16";
    case DType::kE4m3: return "e4m3";
    case DType::kS8: return "s8";
    case DType::kS32: return "s32";
  }
  return "unknown";
}

/// A BF16 value as its 16 bits.
struct Bf16 {
  std::uint16_t bits;
};

inline float toFloat(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

/// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline Bf16 toBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

}  // namespace tilewright
