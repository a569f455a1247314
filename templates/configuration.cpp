#include "templates/configuration.h"

#include <algorithm>
#include <cassert>

namespace tilewright {

const std::int64_t* Configuration::find(std::string_view name) const {
  const auto entry = std::ranges::find(entries_, name, &Entry::first);
  return entry == entries_.end() ? nullptr : &entry->second;
}

std::int64_t Configuration::operator[](std::string_view name) const {
  const std::int64_t* value = find(name);
  assert(value != nullptr && "the template has no parameter of this name");
  return *value;
}

void Configuration::set(std::string_view name, std::int64_t value) {
  const auto entry = std::ranges::find(entries_, name, &Entry::first);
  if (entry != entries_.end()) {
    entry->second = value;
  } else {
    entries_.emplace_back(name, value);
  }
}

std::string Configuration::text() const {
  std::string text;
  for (const auto& [name, value] : entries_) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

std::string Configuration::json() const {
  std::string text = "{";
  for (const auto& [name, value] : entries_)
    text += fmt::format("{}\"{}\": {}", text.size() == 1 ? "" : ", ", name, value);
  return text + "}";
}

}  // namespace tilewright
