// A configuration: a value for each of a template's parameters, in the template's order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tilewright {

class Configuration {
 public:
  using Entry = std::pair<std::string, std::int64_t>;

  Configuration() = default;
  explicit Configuration(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  /// The value of a parameter; the template must have it (an assertion otherwise: names come from the template itself).
  std::int64_t operator[](std::string_view name) const;
  const std::int64_t* find(std::string_view name) const;
  void set(std::string_view name, std::int64_t value);

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Configuration&) const = default;

  /// "tile_m=128 stages=4", for tables and messages.
  std::string text() const;
  /// {"tile_m": 128, "stages": 4}, the form in the database and in listings.
  std::string json() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace tilewright
