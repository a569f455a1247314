// Rounding of sizes and counts, which are never negative.
#pragma once

#include <cstdint>

namespace tilewright {

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

constexpr std::int64_t roundUp(std::int64_t value, std::int64_t multiple) {
  return ceilDiv(value, multiple) * multiple;
}

}  // namespace tilewright
