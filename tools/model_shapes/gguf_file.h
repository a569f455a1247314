// The header of a GGUF file: metadata and the table of tensors, without the weights.
//
//   "GGUF"  u32 version  u64 tensors  u64 keys
//   keys    times { string key, u32 type, value }          string: u64 length, bytes
//   tensors times { string name, u32 n, u64 size[n], u32 type, u64 offset }
//   padding to the alignment, then the weights, each at its offset and padded to the alignment
//
// The reader trusts nothing: every count and length is checked against what is left of the input before anything is
// allocated or skipped, long arrays (vocabularies) are passed over, and the offsets must be the running padded sum of
// the sizes. Only the header must be there; a file that was cut off after it is readable.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/model_shapes/gguf_types.h"

namespace tilewright {

struct GgufTensor {
  std::string name;
  GgufType type;
  int dimensions = 0;
  std::array<std::int64_t, 4> size{1, 1, 1, 1};  ///< size[0] is the contiguous one: k of a weight matrix, size[1] is n
};

/// A metadata value as far as shapes need it: numbers, flags, strings and short arrays of numbers; other arrays are
/// empty.
struct GgufValue {
  std::vector<std::int64_t> integers;  ///< one, or the elements of an array; booleans are 0 and 1
  double real = 0;
  std::string text;
  bool isArray = false;
  bool isText = false;
};

class GgufHeader {
 public:
  /// Reads the header from the start of `stream`, which has `bytes` bytes. kVersion for a version other than 2 and 3,
  /// kUnsupported for a big-endian file, else kCorrupt; messages name what was read and the rule.
  static Result<GgufHeader> read(std::istream& stream, std::uint64_t bytes);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Null without this key.
  const GgufValue* find(std::string_view key) const;
  /// Nothing without the key or if it is no single integer.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  /// kCorrupt if the key is there and a string or a real or, unless they are allowed, an array.
  Result<void> expectIntegers(std::string_view key, bool arraysAllowed) const;

  /// Appends the tensors of another part of a split file. kCorrupt if both have one of the same name.
  Result<void> append(GgufHeader part);

 private:
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace tilewright
