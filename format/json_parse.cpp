// The one file that includes nlohmann/json. Its event interface (SAX) is used, so that each rule is checked while the
// text is read, and the tree is ours.
//
// Events carry no position. The parser therefore reads through an iterator that counts: when an event arrives, the
// count is the end of its token (or one byte more, after a number), and the token begins at the first byte after the
// previous event's end that is neither white space nor a comma or colon.
#include "format/json_parse.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <unordered_set>

namespace tilewright {
namespace {

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits), read_(text.data()) {}

  const char** furthest() { return &read_; }
  Error takeError() { return std::move(*error_); }
  JsonValue takeRoot() { return std::move(root_); }

  bool null() override { return leaf(JsonValue()); }
  bool boolean(bool value) override { return leaf(JsonValue(value)); }
  bool number_integer(std::int64_t value) override { return leaf(JsonValue(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > std::uint64_t{INT64_MAX}) return integerOutOfRange(std::to_string(value));
    return leaf(JsonValue(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string& token) override {
    // An integer that fits 64 bits in neither sign arrives here, rounded.
    if (token.find_first_of(".eE") == std::string::npos) return integerOutOfRange(token);
    return leaf(JsonValue(value));
  }
  bool string(std::string& value) override { return leaf(JsonValue(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary values are not JSON"); }

  bool start_object(std::size_t) override { return open(JsonValue(JsonValue::Object{})); }
  bool start_array(std::size_t) override { return open(JsonValue(JsonValue::Array{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    tokenStart_ = nextToken();
    Frame& frame = frames_.back();
    frame.key = std::move(name);
    if (!frame.keys.insert(frame.key).second) return refuse("duplicate key '{}'", clip(frame.key));
    previousEnd_ = read_;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& exception) override {
    // The library's sentence follows its own prefix "[json.exception...] parse error at line 1, column 2: ".
    std::string_view what = exception.what();
    if (const auto colon = what.find("syntax error"); colon != std::string_view::npos) what.remove_prefix(colon);
    if (what.find("number overflow") != std::string_view::npos) what = "a number is beyond the range of a double";
    const bool atEnd = what.find("unexpected end of input") != std::string_view::npos;
    tokenStart_ = read_ > text_.data() && !atEnd ? read_ - 1 : read_;
    return refuse("{}", clip(what));
  }

 private:
  struct Frame {
    JsonValue* value;   ///< in the tree; stable while this frame is open, since only the innermost container grows
    std::string key{};  ///< of the member that is being read
    std::unordered_set<std::string> keys{};
  };

  const char* nextToken() const {
    const char* at = previousEnd_ == nullptr ? text_.data() : previousEnd_;
    while (at < read_ && std::strchr(" \t\r\n,:\xef\xbb\xbf", *at) != nullptr && *at != '\0') ++at;
    return at;
  }

  bool leaf(JsonValue value) {
    tokenStart_ = nextToken();
    place(std::move(value));
    previousEnd_ = read_;
    return true;
  }

  bool open(JsonValue value) {
    tokenStart_ = nextToken();
    if (frames_.size() >= static_cast<std::size_t>(limits_.depth)) {
      return refuse("arrays and objects are nested more than {} deep", limits_.depth);
    }
    frames_.push_back({.value = place(std::move(value))});
    previousEnd_ = read_;
    return true;
  }

  bool close() {
    frames_.pop_back();
    previousEnd_ = read_;
    return true;
  }

  JsonValue* place(JsonValue value) {
    value.setPosition(positionOf(tokenStart_));
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (JsonValue::Array* array = frame.value->asArray()) return &array->emplace_back(std::move(value));
    JsonValue::Object& object = *frame.value->asObject();
    return &object.emplace_back(JsonMember{frame.key, std::move(value)}).value;
  }

  // Positions are asked for in the order of the text, so the lines are counted once.
  JsonPosition positionOf(const char* at) {
    for (; lineCounted_ < at; ++lineCounted_) {
      if (*lineCounted_ == '\n') ++line_, lineStart_ = lineCounted_ + 1;
    }
    return {line_, static_cast<std::uint32_t>(at - lineStart_ + 1)};
  }

  std::string path() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (const JsonValue::Array* array = frame.value->asArray()) {
        path += fmt::format("[{}]", &frame == &frames_.back() ? array->size() : array->size() - 1);
      } else if (!frame.key.empty()) {
        path += fmt::format("{}{}", path.empty() ? "" : ".", clip(frame.key));
      }
    }
    return path;
  }

  static std::string clip(std::string_view text) {
    constexpr std::size_t kMaximum = 160;
    return text.size() <= kMaximum ? std::string(text) : fmt::format("{}...", text.substr(0, kMaximum));
  }

  bool integerOutOfRange(std::string_view token) {
    tokenStart_ = nextToken();
    return refuse("integer {} does not fit a signed 64-bit integer", clip(token));
  }

  template <typename... Arguments>
  bool refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const JsonPosition position = positionOf(std::max(tokenStart_, lineCounted_));
    const std::string where = path();
    error_ =
        Error{ErrorCode::kInvalidArgument,
              fmt::format("line {}, column {}{}{}: {}", position.line, position.column, where.empty() ? "" : ", at ",
                          where, fmt::format(format, std::forward<Arguments>(arguments)...))};
    return false;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  const char* read_;                   ///< one past the last byte that the parser took
  const char* previousEnd_ = nullptr;  ///< where the previous event's token ended
  const char* tokenStart_ = text_.data();
  const char* lineCounted_ = text_.data();
  const char* lineStart_ = text_.data();
  std::uint32_t line_ = 1;
  JsonValue root_;
  std::vector<Frame> frames_;
  std::optional<Error> error_;
};

}  // namespace

Result<JsonValue> parseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return fail(ErrorCode::kInvalidArgument, "JSON text has {} bytes, must be at most {}", text.size(), limits.bytes);
  }
  TreeBuilder builder(text, limits);
  try {
    const CountingIterator begin(std::to_address(text.begin()), builder.furthest());
    const CountingIterator end(std::to_address(text.end()), builder.furthest());
    if (!nlohmann::json::sax_parse(begin, end, &builder)) return std::unexpected(builder.takeError());
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "cannot read JSON: {}", exception.what());
  }
  return builder.takeRoot();
}

Result<JsonValue> readJsonFile(const std::filesystem::path& file, const JsonLimits& limits) {
  const std::string text = TW_TRY(readTextFile(file, limits.bytes));
  Result<JsonValue> value = parseJson(text, limits);
  if (!value) value.error().message = fmt::format("cannot read {}: {}", file.string(), value.error().message);
  return value;
}

Result<std::string> readTextFile(const std::filesystem::path& file, std::size_t limit) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return fail(ErrorCode::kNotFound, "cannot read {}: no such file", file.string());
  }
  if (error) return fail(ErrorCode::kIo, "cannot read {}: {}", file.string(), error.message());
  if (std::filesystem::is_directory(status)) {
    return fail(ErrorCode::kInvalidArgument, "cannot read {}: it is a directory", file.string());
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "cannot read {}: {}", file.string(), std::strerror(errno));
  std::string text;
  char block[1 << 16];
  while (stream.read(block, sizeof block), stream.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > limit) {
      return fail(ErrorCode::kInvalidArgument, "cannot read {}: it has more than {} bytes", file.string(), limit);
    }
  }
  if (stream.bad()) return fail(ErrorCode::kIo, "cannot read {}: {}", file.string(), std::strerror(errno));
  return text;
}

}  // namespace tilewright
