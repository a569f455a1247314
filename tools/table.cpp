#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace tilewright {
namespace {

// Columns on a terminal of UTF-8 text: bytes less continuation bytes.
std::size_t widthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string significant(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(widthOf(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], widthOf(row[c]));
  }
  std::string text;
  const auto addLine = [&](auto cell) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string_view content = cell(c);
      const std::string blanks(widths[c] - widthOf(content), ' ');
      if (c > 0) line += "  ";
      if (columns_[c].side == Side::kRight) line += blanks;
      line += content;
      if (columns_[c].side == Side::kLeft) line += blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  addLine([&](std::size_t c) -> std::string_view { return columns_[c].title; });
  for (const auto& row : rows_) addLine([&](std::size_t c) -> std::string_view { return row[c]; });
  return text;
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string formatMicroseconds(double microseconds) {
  if (microseconds < 1000) return significant(microseconds) + " us";
  if (microseconds < 1e6) return significant(microseconds / 1e3) + " ms";
  return significant(microseconds / 1e6) + " s";
}

std::string formatBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{} {}", significant(bytes), kUnits[unit]);
}

}  // namespace tilewright
