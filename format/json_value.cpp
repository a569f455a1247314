#include "format/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tilewright {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7), or 0.
std::size_t utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return within(1, low, high) && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return within(1, low, high) && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

template <typename Elements, typename Append>
void appendList(std::string& out, char open, char close, const Elements& elements, Append append) {
  out += open;
  bool first = true;
  for (const auto& element : elements) {
    if (!std::exchange(first, false)) out += ", ";
    append(element);
  }
  out += close;
}

}  // namespace

JsonValue::JsonValue() = default;
JsonValue::JsonValue(const JsonValue& other) = default;
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue& other) = default;
JsonValue& JsonValue::operator=(JsonValue&& other) noexcept = default;
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(bool value) : value_(value) {}
JsonValue::JsonValue(int value) : value_(std::int64_t{value}) {}
JsonValue::JsonValue(std::int64_t value) : value_(value) {}
JsonValue::JsonValue(double value) : value_(value) {}
JsonValue::JsonValue(const char* value) : value_(std::string(value)) {}
JsonValue::JsonValue(std::string_view value) : value_(std::string(value)) {}
JsonValue::JsonValue(std::string value) : value_(std::move(value)) {}
JsonValue::JsonValue(Array value) : value_(std::move(value)) {}
JsonValue::JsonValue(Object value) : value_(std::move(value)) {}

JsonValue JsonValue::object(std::initializer_list<JsonMember> members) {
  return JsonValue(Object(members));
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const Object* object = asObject();
  if (object == nullptr) return nullptr;
  const auto member = std::ranges::find(*object, name, &JsonMember::name);
  return member == object->end() ? nullptr : &member->value;
}

void JsonValue::add(std::string name, JsonValue value) {
  assert(asObject() != nullptr && find(name) == nullptr);
  asObject()->push_back({std::move(name), std::move(value)});
}

std::string JsonValue::text() const {
  std::string out;
  append(out);
  return out;
}

void JsonValue::append(std::string& out) const {
  switch (kind()) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kBoolean:
      out += *asBoolean() ? "true" : "false";
      return;
    case Kind::kInteger:
      out += fmt::format("{}", *asInteger());
      return;
    case Kind::kReal:
      out += std::isfinite(*asReal()) ? fmt::format("{}", *asReal()) : "null";
      return;
    case Kind::kString:
      out += jsonQuote(*asString());
      return;
    case Kind::kArray:
      appendList(out, '[', ']', *asArray(), [&](const JsonValue& element) { element.append(out); });
      return;
    case Kind::kObject:
      appendList(out, '{', '}', *asObject(), [&](const JsonMember& member) {
        out += jsonQuote(member.name) + ": ";
        member.value.append(out);
      });
      return;
  }
}

std::string_view jsonKindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBoolean:
      return "a boolean";
    case JsonValue::Kind::kInteger:
      return "an integer";
    case JsonValue::Kind::kReal:
      return "a number with a fraction or exponent";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "unknown";
}

std::string jsonQuote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8Length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

}  // namespace tilewright
