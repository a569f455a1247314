#include "tests/conformance/difference.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace tilewright::conformance {
namespace {

float valueAt(const std::byte* bytes, std::size_t size) {
  if (size == sizeof(Bf16)) {
    Bf16 value{};
    std::memcpy(&value, bytes, sizeof value);
    return toFloat(value);
  }
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::string differenceOf(const std::vector<std::byte>& first, const std::vector<std::byte>& again, std::int64_t origin,
                         std::size_t size, std::string_view name) {
  if (first == again) return "";
  if (first.size() != again.size()) return fmt::format("{} bytes of {}, not {}", again.size(), name, first.size());
  struct Pair {
    std::int64_t element;
    float again, first;
  };
  std::int64_t count = 0;
  Pair begin{}, end{}, furthest{};
  float most = -1;
  for (std::size_t at = 0; at + size <= first.size(); at += size) {
    if (std::memcmp(&first[at], &again[at], size) == 0) continue;
    end = {.element = (static_cast<std::int64_t>(at) - origin) / static_cast<std::int64_t>(size),
           .again = valueAt(&again[at], size),
           .first = valueAt(&first[at], size)};
    if (count++ == 0) begin = end;
    // NaN is what no run may leave; the poison between runs is one.
    const float apart = std::abs(end.again - end.first);
    const float distance = std::isnan(apart) ? std::numeric_limits<float>::infinity() : apart;
    if (distance > most) most = distance, furthest = end;
  }
  return fmt::format("in {} values of {}, elements {} to {}: {} instead of {} at {}, {} instead of {} at {}", count,
                     name, begin.element, end.element, begin.again, begin.first, begin.element, furthest.again,
                     furthest.first, furthest.element);
}

}  // namespace

std::string differenceOf(const OutputBits& first, const OutputBits& again, const std::array<std::int64_t, 2>& origins) {
  const std::string out = differenceOf(first[0], again[0], origins[0], sizeof(Bf16), "out");
  return out.empty() ? differenceOf(first[1], again[1], origins[1], sizeof(float), "lse") : out;
}

}  // namespace tilewright::conformance
