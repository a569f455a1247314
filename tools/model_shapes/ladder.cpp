#include "tools/model_shapes/ladder.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tilewright {
namespace {

constexpr std::int64_t kMaximumSize = std::int64_t{1} << 40;  // as base/problem.h
constexpr std::size_t kMaximumRungs = 1000;

std::optional<std::int64_t> wholeInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

struct Range {
  std::int64_t first, last, step;
  bool multiplies;
};

std::optional<Range> rangeOf(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() == 1) {
    const auto value = wholeInteger(text);
    return value ? std::optional(Range{*value, *value, 1, false}) : std::nullopt;
  }
  if (parts.size() != 3 || parts[2].empty() || (parts[2][0] != 'x' && parts[2][0] != '+')) return std::nullopt;
  const auto first = wholeInteger(parts[0]), last = wholeInteger(parts[1]), step = wholeInteger(parts[2].substr(1));
  if (!first || !last || !step) return std::nullopt;
  const bool multiplies = parts[2][0] == 'x';
  // A step that does not move on would never end; nor would multiplying 0.
  if (*first > *last || *step < (multiplies ? 2 : 1) || (multiplies && *first < 1)) return std::nullopt;
  return Range{*first, *last, *step, multiplies};
}

}  // namespace

Result<std::vector<std::int64_t>> parseLadder(std::string_view flag, std::string_view text, std::int64_t minimum) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : split(text, ',')) {
    const auto range = rangeOf(part);
    if (!range) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: cannot read '{}': expected a size, FIRST:LAST:xFACTOR with FIRST from 1 and FACTOR from 2, or "
                  "FIRST:LAST:+STEP with STEP from 1; LAST from FIRST on",
                  flag, part);
    }
    if (range->first < minimum || range->last > kMaximumSize) {
      return fail(ErrorCode::kInvalidArgument, "{}: '{}' is out of range, sizes must be from {} to 2^40", flag, part,
                  minimum);
    }
    for (std::int64_t size = range->first; size <= range->last;) {
      sizes.push_back(size);
      if (sizes.size() > kMaximumRungs) {
        return fail(ErrorCode::kInvalidArgument, "{}: '{}' has more than {} sizes", flag, text, kMaximumRungs);
      }
      if (range->multiplies) {
        if (size > range->last / range->step) break;
        size *= range->step;
      } else {
        if (size > range->last - range->step) break;
        size += range->step;
      }
    }
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace tilewright
