// Strict reading of JSON text. What nlohmann/json lets pass silently is an error here: duplicate keys, integers that do
// not fit 64 bits, reals beyond the range of a double, nesting beyond a limit, and anything after the value.
//
// Every error is kInvalidArgument and names the line, the column and the path of the value:
//   line 3, column 8, at problems[2].k: duplicate key 'k'
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "format/json_value.h"

namespace tilewright {

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;  ///< of the text
  int depth = 64;                             ///< arrays and objects inside each other
};

Result<JsonValue> parseJson(std::string_view text, const JsonLimits& limits = {});

/// The file's value; errors begin with its name. kNotFound without the file, kIo when reading fails.
Result<JsonValue> readJsonFile(const std::filesystem::path& file, const JsonLimits& limits = {});

/// A whole regular file of at most `limit` bytes. kNotFound, kIo, or kInvalidArgument for a directory or a larger file.
Result<std::string> readTextFile(const std::filesystem::path& file, std::size_t limit);

}  // namespace tilewright
