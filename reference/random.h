// Reproducible random values, the same on every machine: the standard library's distributions are not.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>

#include "base/dtype.h"

namespace tilewright::reference {

/// SplitMix64 (Steele, Lea, Flood 2014): one multiply-xorshift chain per value, every seed gives another stream.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x1234567) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// From [0, count), for counts far below 2^64.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(count));
  }
  /// From [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Standard normal, by Box and Muller.
  double gaussian() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

/// Standard normal BF16 values at about one nanosecond each: four picks from a drawn table for 64 random bits.
class GaussianPicks {
 public:
  explicit GaussianPicks(std::uint64_t seed) : random_(seed), table_(std::make_unique<Table>()) {
    Random draw(seed ^ 0x6a09e667);
    for (Bf16& value : *table_) value = toBf16(static_cast<float>(draw.gaussian()));
  }

  Bf16 next() {
    if (left_ == 0) bits_ = random_.bits(), left_ = 4;
    const Bf16 value = (*table_)[bits_ & 0xffff];
    bits_ >>= 16, --left_;
    return value;
  }

 private:
  using Table = std::array<Bf16, 1 << 16>;

  Random random_;
  std::unique_ptr<Table> table_;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};

}  // namespace tilewright::reference
