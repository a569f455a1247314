// A JSON value of ours: a plain tree with ordered members and the place in the text where each value began.
//
// The library that parses (json_parse.cpp) stays behind this type, so that no other file includes it. Integers and
// reals are different kinds: an integer that does not fit 64 bits is refused by the parser, never rounded.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tilewright {

/// Line and column (in bytes) from 1; 0 for a value that a program made.
struct JsonPosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

struct JsonMember;

class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kReal, kString, kArray, kObject };  // the variant's order
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;

  // Defined where JsonMember is complete.
  JsonValue();
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(const JsonValue& other);
  JsonValue& operator=(JsonValue&& other) noexcept;
  ~JsonValue();
  JsonValue(bool value);
  JsonValue(int value);
  JsonValue(std::int64_t value);
  JsonValue(double value);
  JsonValue(const char* value);
  JsonValue(std::string_view value);
  JsonValue(std::string value);
  JsonValue(Array value);
  JsonValue(Object value);
  /// {{"op", "linear"}, {"n", 8}}: an object with its members in this order.
  static JsonValue object(std::initializer_list<JsonMember> members);

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool isNull() const { return kind() == Kind::kNull; }

  // The value as a kind, or null if it is of another kind.
  const bool* asBoolean() const { return std::get_if<bool>(&value_); }
  const std::int64_t* asInteger() const { return std::get_if<std::int64_t>(&value_); }
  const double* asReal() const { return std::get_if<double>(&value_); }
  const std::string* asString() const { return std::get_if<std::string>(&value_); }
  const Array* asArray() const { return std::get_if<Array>(&value_); }
  const Object* asObject() const { return std::get_if<Object>(&value_); }
  Array* asArray() { return std::get_if<Array>(&value_); }
  Object* asObject() { return std::get_if<Object>(&value_); }

  /// The member of an object, or null if there is none or this is no object.
  const JsonValue* find(std::string_view name) const;
  /// Appends a member; this must be an object without one of this name.
  void add(std::string name, JsonValue value);

  JsonPosition position() const { return position_; }
  void setPosition(JsonPosition position) { position_ = position; }

  /// One line with a blank after each comma and colon, as in toJson(Problem). Reals are the shortest text that reads
  /// back to the same value; a real that is not finite becomes null. Bytes that are not UTF-8 become U+FFFD.
  std::string text() const;

 private:
  void append(std::string& out) const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
  JsonPosition position_;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

/// "a string", "an integer": for messages.
std::string_view jsonKindName(JsonValue::Kind kind);

/// A JSON string with its quotes and escapes.
std::string jsonQuote(std::string_view text);

}  // namespace tilewright
