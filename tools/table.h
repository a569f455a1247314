// Tables for people: columns as wide as their widest cell, numbers to the right, two blanks between.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

class Table {
 public:
  enum class Side : bool { kLeft, kRight };
  struct Column {
    std::string title;
    Side side = Side::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// A cell for each column.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// The titles, then a line for each row, each with a newline and without blanks at its end.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Text that comes from files, with control characters written as \xNN: it moves no cursor and breaks no line.
std::string printable(std::string_view text);
/// "12.3 us", "4.56 ms", "1.20 s".
std::string formatMicroseconds(double microseconds);
/// "144 B", "33.0 MiB".
std::string formatBytes(double bytes);

}  // namespace tilewright
