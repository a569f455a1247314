#include "tools/model_shapes/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <unordered_set>

namespace tilewright {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF headers are read in the host's byte order");

// Far above any model, far below what would take long or much memory.
constexpr std::uint64_t kMaximumKeys = 1 << 16;
constexpr std::uint64_t kMaximumTensors = 1 << 20;
constexpr std::uint64_t kMaximumKeyBytes = 65535;      // GGUF specification
constexpr std::uint64_t kMaximumTensorNameBytes = 64;  // GGUF specification
constexpr std::uint64_t kMaximumKept = 4096;  // bytes of strings, elements of arrays; longer ones are passed over
constexpr std::uint64_t kMaximumHeaderBytes = std::uint64_t{256} << 20;

enum ValueType : std::uint8_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};
constexpr std::uint64_t kScalarBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <typename... Arguments>
std::unexpected<Error> corrupt(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return fail(ErrorCode::kCorrupt, format, std::forward<Arguments>(arguments)...);
}

// Takes bytes from a stream of known length; what would pass its end is an error before it is tried.
class Cursor {
 public:
  Cursor(std::istream& stream, std::uint64_t bytes) : stream_(stream), left_(bytes), bytes_(bytes) {}

  std::uint64_t left() const { return left_; }
  std::uint64_t position() const { return bytes_ - left_; }

  Result<void> take(void* out, std::uint64_t bytes, std::string_view what) {
    if (bytes > left_) {
      return corrupt("GGUF header ends at byte {} inside {}: {} bytes are missing", bytes_, what, bytes - left_);
    }
    if (!stream_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes))) {
      return fail(ErrorCode::kIo, "cannot read GGUF header at byte {}: {}", position(), std::strerror(errno));
    }
    left_ -= bytes;
    return {};
  }

  template <typename T>
  Result<T> take(std::string_view what) {
    T value;
    TW_TRY(take(&value, sizeof value, what));
    return value;
  }

  Result<void> skip(std::uint64_t bytes, std::string_view what) {
    if (bytes > left_) {
      return corrupt("GGUF header ends at byte {} inside {}: {} bytes are missing", bytes_, what, bytes - left_);
    }
    stream_.ignore(static_cast<std::streamsize>(bytes));
    left_ -= bytes;
    return {};
  }

  // A string of at most `limit` bytes.
  Result<std::string> takeString(std::uint64_t limit, std::string_view what) {
    const auto length = TW_TRY(take<std::uint64_t>(what));
    if (length > limit) return corrupt("GGUF {} has {} bytes, must be at most {}", what, length, limit);
    std::string text(length, '\0');
    TW_TRY(take(text.data(), length, what));
    return text;
  }

 private:
  std::istream& stream_;
  std::uint64_t left_;
  std::uint64_t bytes_;
};

Result<void> takeScalar(Cursor& cursor, ValueType type, GgufValue& value, std::string_view key) {
  std::array<std::byte, 8> bytes{};
  TW_TRY(cursor.take(bytes.data(), kScalarBytes[type], key));
  const auto as = [&]<typename T>(T) {
    T typed;
    std::memcpy(&typed, bytes.data(), sizeof typed);
    return typed;
  };
  switch (type) {
    case kU8:
    case kBool:
      value.integers.push_back(as(std::uint8_t{}));
      break;
    case kI8:
      value.integers.push_back(as(std::int8_t{}));
      break;
    case kU16:
      value.integers.push_back(as(std::uint16_t{}));
      break;
    case kI16:
      value.integers.push_back(as(std::int16_t{}));
      break;
    case kU32:
      value.integers.push_back(as(std::uint32_t{}));
      break;
    case kI32:
      value.integers.push_back(as(std::int32_t{}));
      break;
    case kU64: {
      const auto wide = as(std::uint64_t{});
      if (wide > std::uint64_t{INT64_MAX}) return corrupt("GGUF key {} is {}, must be below 2^63", key, wide);
      value.integers.push_back(static_cast<std::int64_t>(wide));
      break;
    }
    case kI64:
      value.integers.push_back(as(std::int64_t{}));
      break;
    case kF32:
      value.real = as(float{});
      break;
    case kF64:
      value.real = as(double{});
      break;
    default:
      break;
  }
  return {};
}

Result<void> takeArray(Cursor& cursor, GgufValue& value, std::string_view key) {
  value.isArray = true;
  const auto type = TW_TRY(cursor.take<std::uint32_t>(key));
  const auto count = TW_TRY(cursor.take<std::uint64_t>(key));
  if (type >= kValueTypes || type == kArray) return corrupt("GGUF key {} is an array of type {}", key, type);
  const std::uint64_t least = type == kString ? sizeof(std::uint64_t) : kScalarBytes[type];
  if (count > cursor.left() / least) {
    return corrupt("GGUF key {} claims {} elements, the input has {} bytes left", key, count, cursor.left());
  }
  if (type == kString) {
    for (std::uint64_t i = 0; i < count; ++i) TW_TRY(cursor.skip(TW_TRY(cursor.take<std::uint64_t>(key)), key));
    return {};
  }
  if (count > kMaximumKept || type == kF32 || type == kF64) return cursor.skip(count * least, key);
  for (std::uint64_t i = 0; i < count; ++i) TW_TRY(takeScalar(cursor, static_cast<ValueType>(type), value, key));
  return {};
}

Result<GgufValue> takeValue(Cursor& cursor, std::string_view key) {
  GgufValue value;
  const auto type = TW_TRY(cursor.take<std::uint32_t>(key));
  if (type >= kValueTypes) return corrupt("GGUF key {} has the unknown type {}", key, type);
  if (type == kArray) {
    TW_TRY(takeArray(cursor, value, key));
  } else if (type == kString) {
    value.isText = true;
    const auto length = TW_TRY(cursor.take<std::uint64_t>(key));
    if (length > kMaximumKept) {
      TW_TRY(cursor.skip(length, key));
    } else {
      value.text.resize(std::min(length, cursor.left()));
      TW_TRY(cursor.take(value.text.data(), length, key));
    }
  } else {
    TW_TRY(takeScalar(cursor, static_cast<ValueType>(type), value, key));
  }
  return value;
}

// Bytes of a tensor padded to the alignment, or nothing if that is 2^63 or more.
std::optional<std::uint64_t> paddedBytes(const GgufTensor& tensor, std::uint64_t alignment) {
  std::int64_t bytes = tensor.type.blockBytes;
  if (__builtin_mul_overflow(tensor.size[0] / tensor.type.blockElements, bytes, &bytes)) return std::nullopt;
  for (int i = 1; i < 4; ++i) {
    if (__builtin_mul_overflow(bytes, tensor.size[i], &bytes)) return std::nullopt;
  }
  const std::uint64_t padded = (static_cast<std::uint64_t>(bytes) + alignment - 1) / alignment * alignment;
  return padded > std::uint64_t{INT64_MAX} ? std::nullopt : std::optional(padded);
}

Result<GgufTensor> takeTensor(Cursor& cursor, std::uint64_t alignment, std::uint64_t& expectedOffset) {
  GgufTensor tensor;
  tensor.name = TW_TRY(cursor.takeString(kMaximumTensorNameBytes, "tensor name"));
  const std::string what = fmt::format("tensor '{}'", tensor.name);
  const auto dimensions = TW_TRY(cursor.take<std::uint32_t>(what));
  if (dimensions > tensor.size.size()) return corrupt("GGUF {} has {} dimensions, must be at most 4", what, dimensions);
  tensor.dimensions = static_cast<int>(dimensions);
  for (int i = 0; i < tensor.dimensions; ++i) {
    tensor.size[i] = TW_TRY(cursor.take<std::int64_t>(what));
    if (tensor.size[i] < 1) return corrupt("GGUF {} has the size {} in dimension {}", what, tensor.size[i], i);
  }
  const auto typeId = TW_TRY(cursor.take<std::uint32_t>(what));
  const auto type = ggufTypeOf(typeId);
  if (!type) return corrupt("GGUF {} has type {}, which this program does not know", what, typeId);
  tensor.type = *type;
  if (tensor.size[0] % type->blockElements != 0) {
    return corrupt("GGUF {} has rows of {} elements, must be a multiple of {} for {}", what, tensor.size[0],
                   type->blockElements, type->name);
  }
  const auto offset = TW_TRY(cursor.take<std::uint64_t>(what));
  if (offset != expectedOffset) {
    return corrupt("GGUF {} has offset {}, must be {} (the padded sizes before it)", what, offset, expectedOffset);
  }
  const auto bytes = paddedBytes(tensor, alignment);
  if (!bytes || *bytes > std::uint64_t{INT64_MAX} - expectedOffset) {
    return corrupt("GGUF {} passes 2^63 bytes with sizes {}", what, fmt::join(tensor.size, " x "));
  }
  expectedOffset += *bytes;
  return tensor;
}

Result<std::uint64_t> alignmentOf(const GgufHeader& header) {
  constexpr std::uint64_t kDefaultAlignment = 32;
  if (header.find("general.alignment") == nullptr) return kDefaultAlignment;
  const auto alignment = header.integer("general.alignment").value_or(0);
  if (alignment <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(alignment)) || alignment > (1 << 30)) {
    return corrupt("GGUF general.alignment is {}, must be a power of two up to 2^30", alignment);
  }
  return static_cast<std::uint64_t>(alignment);
}

}  // namespace

Result<GgufHeader> GgufHeader::read(std::istream& stream, std::uint64_t bytes) {
  Cursor cursor(stream, std::min(bytes, kMaximumHeaderBytes));
  char magic[4];
  TW_TRY(cursor.take(magic, sizeof magic, "the magic"));
  if (std::string_view(magic, sizeof magic) != "GGUF") return corrupt("not a GGUF file: it does not begin with 'GGUF'");
  const auto version = TW_TRY(cursor.take<std::uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0) {
    return fail(ErrorCode::kUnsupported, "GGUF file is big-endian (its version reads as {:#010x}); convert it first",
                version);
  }
  if (version != 2 && version != 3) {
    return fail(ErrorCode::kVersion, "GGUF file has version {}, this program reads 2 and 3", version);
  }

  // The least a key takes: an empty name, its type, one byte. The least a tensor takes: an empty name, n, type, offset.
  constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1, kLeastTensorBytes = 8 + 4 + 4 + 8;
  const auto tensorCount = TW_TRY(cursor.take<std::uint64_t>("the number of tensors"));
  const auto keyCount = TW_TRY(cursor.take<std::uint64_t>("the number of keys"));
  if (tensorCount > std::min(kMaximumTensors, cursor.left() / kLeastTensorBytes)) {
    return corrupt("GGUF header claims {} tensors, the input has {} bytes left", tensorCount, cursor.left());
  }
  if (keyCount > std::min(kMaximumKeys, cursor.left() / kLeastKeyBytes)) {
    return corrupt("GGUF header claims {} keys, the input has {} bytes left", keyCount, cursor.left());
  }

  GgufHeader header;
  for (std::uint64_t i = 0; i < keyCount; ++i) {
    std::string key = TW_TRY(cursor.takeString(kMaximumKeyBytes, fmt::format("name of key {}", i)));
    GgufValue value = TW_TRY(takeValue(cursor, key));
    if (!header.values_.try_emplace(key, std::move(value)).second) return corrupt("GGUF header has two keys '{}'", key);
  }
  for (const std::string_view key : {"general.alignment", "split.no", "split.count", "split.tensors.count"}) {
    TW_TRY(header.expectIntegers(key, false));
  }
  const std::uint64_t alignment = TW_TRY(alignmentOf(header));
  std::unordered_set<std::string> names;
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < tensorCount; ++i) {
    GgufTensor tensor = TW_TRY(takeTensor(cursor, alignment, offset));
    if (!names.insert(tensor.name).second) return corrupt("GGUF header has two tensors '{}'", tensor.name);
    header.tensors_.push_back(std::move(tensor));
  }
  return header;
}

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto value = values_.find(key);
  return value == values_.end() ? nullptr : &value->second;
}

std::optional<std::int64_t> GgufHeader::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || value->isArray || value->integers.size() != 1) return std::nullopt;
  return value->integers.front();
}

std::string_view GgufHeader::text(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::string_view{} : std::string_view(value->text);
}

Result<void> GgufHeader::expectIntegers(std::string_view key, bool arraysAllowed) const {
  const GgufValue* value = find(key);
  if (value == nullptr || (value->isArray ? arraysAllowed : !value->integers.empty())) return {};
  return corrupt("GGUF key {} is {}, must be an integer", key,
                 value->isArray  ? "an array"
                 : value->isText ? fmt::format("the string '{}'", value->text)
                                 : fmt::format("the real {}", value->real));
}

Result<void> GgufHeader::append(GgufHeader part) {
  std::unordered_set<std::string_view> names;
  for (const GgufTensor& tensor : tensors_) names.insert(tensor.name);
  for (const GgufTensor& tensor : part.tensors_) {
    if (names.contains(tensor.name))
      return corrupt("two parts of the split GGUF file have the tensor '{}'", tensor.name);
  }
  std::ranges::move(part.tensors_, std::back_inserter(tensors_));
  return {};
}

}  // namespace tilewright
