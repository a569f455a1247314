#include "tools/model_shapes/problem_csv.h"

#include <algorithm>
#include <charconv>

namespace tilewright {
namespace {

enum class CellKind : std::uint8_t { kText, kInteger, kFlag, kNumber };

struct Column {
  std::string_view name;
  CellKind kind;
};

constexpr Column kColumns[] = {
    {"op", CellKind::kText},         {"n", CellKind::kInteger},        {"k", CellKind::kInteger},
    {"m", CellKind::kInteger},       {"precision", CellKind::kText},   {"bias", CellKind::kFlag},
    {"prepared", CellKind::kFlag},   {"dtype", CellKind::kText},       {"batch", CellKind::kInteger},
    {"q_heads", CellKind::kInteger}, {"kv_heads", CellKind::kInteger}, {"head_dim", CellKind::kInteger},
    {"q_len", CellKind::kInteger},   {"kv_len", CellKind::kInteger},   {"causal", CellKind::kFlag},
    {"lse", CellKind::kFlag},        {"alignment", CellKind::kText},   {"count", CellKind::kNumber},
    {"use", CellKind::kText},
};

struct Cell {
  std::string_view text;
  JsonPosition position;
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<Cell> cellsOf(std::string_view line, std::uint32_t number) {
  std::vector<Cell> cells;
  std::uint32_t column = 1;
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view text = trim(line.substr(0, comma));
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    cells.push_back({text, {number, column}});
    if (comma == std::string_view::npos) return cells;
    column += static_cast<std::uint32_t>(comma + 1);
    line.remove_prefix(comma + 1);
  }
}

template <typename... Arguments>
std::unexpected<Error> failAt(JsonPosition position, fmt::format_string<Arguments...> format,
                              Arguments&&... arguments) {
  return fail(ErrorCode::kInvalidArgument, "line {}, column {}: {}", position.line, position.column,
              fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename T>
bool parseWhole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Result<JsonValue> valueOf(const Cell& cell, const Column& column) {
  JsonValue value;
  switch (column.kind) {
    case CellKind::kText:
      value = cell.text;
      break;
    case CellKind::kInteger: {
      std::int64_t integer = 0;
      if (!parseWhole(cell.text, integer)) {
        return failAt(cell.position, "{} is '{}', must be a 64-bit integer", column.name, cell.text);
      }
      value = integer;
      break;
    }
    case CellKind::kNumber: {
      double number = 0;
      if (!parseWhole(cell.text, number))
        return failAt(cell.position, "{} is '{}', must be a number", column.name, cell.text);
      value = number;
      break;
    }
    case CellKind::kFlag:
      if (cell.text == "true" || cell.text == "1") {
        value = true;
      } else if (cell.text == "false" || cell.text == "0") {
        value = false;
      } else {
        return failAt(cell.position, "{} is '{}', must be true, false, 1 or 0", column.name, cell.text);
      }
      break;
  }
  value.setPosition(cell.position);
  return value;
}

Result<std::vector<Column>> columnsOf(const std::vector<Cell>& header) {
  std::vector<Column> columns;
  for (const Cell& cell : header) {
    const auto known = std::ranges::find(kColumns, cell.text, &Column::name);
    if (known == std::end(kColumns)) {
      std::vector<std::string_view> names;
      for (const Column& column : kColumns) names.push_back(column.name);
      return failAt(cell.position, "unknown column '{}'; allowed are {}", cell.text, fmt::join(names, ", "));
    }
    if (std::ranges::find(columns, cell.text, &Column::name) != columns.end()) {
      return failAt(cell.position, "column '{}' appears twice", cell.text);
    }
    columns.push_back(*known);
  }
  return columns;
}

}  // namespace

Result<std::vector<ListedProblem>> problemsFromCsv(std::string_view text) {
  std::vector<Column> columns;
  JsonValue::Array rows;
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (trim(line).empty() || trim(line).front() == '#') continue;
    const std::vector<Cell> cells = cellsOf(line, number);
    if (columns.empty()) {
      columns = TW_TRY(columnsOf(cells));
      continue;
    }
    if (cells.size() != columns.size()) {
      return failAt({number, 1}, "{} cells, the header has {} columns", cells.size(), columns.size());
    }
    JsonValue row{JsonValue::Object{}};
    row.setPosition({number, 1});
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].text.empty()) row.add(std::string(columns[i].name), TW_TRY(valueOf(cells[i], columns[i])));
    }
    rows.push_back(std::move(row));
  }
  if (columns.empty()) return fail(ErrorCode::kInvalidArgument, "CSV list of problems has no header line");
  return problemListFromJson(JsonValue(std::move(rows)));
}

}  // namespace tilewright
