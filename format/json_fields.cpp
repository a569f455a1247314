#include "format/json_fields.h"

#include <algorithm>

namespace tilewright {
namespace {

std::string expected(std::string_view kind, const JsonValue& value) {
  return fmt::format("expected {}, found {}", kind, jsonKindName(value.kind()));
}

}  // namespace

Error jsonError(const JsonValue& value, std::string_view path, std::string_view message) {
  const JsonPosition position = value.position();
  std::string where = position.line == 0 ? "" : fmt::format("line {}, column {}", position.line, position.column);
  if (!path.empty()) where += fmt::format("{}at {}", where.empty() ? "" : ", ", path);
  return {ErrorCode::kInvalidArgument, where.empty() ? std::string(message) : fmt::format("{}: {}", where, message)};
}

Result<JsonFields> JsonFields::of(const JsonValue& value, std::string path) {
  if (value.asObject() == nullptr) return std::unexpected(jsonError(value, path, expected("an object", value)));
  return JsonFields(value, std::move(path));
}

Result<void> JsonFields::allowOnly(std::span<const std::string_view> names) const {
  for (const JsonMember& member : *value_->asObject()) {
    if (std::ranges::find(names, member.name) != names.end()) continue;
    return std::unexpected(jsonError(
        member.value, path_, fmt::format("unknown key '{}'; allowed are {}", member.name, fmt::join(names, ", "))));
  }
  return {};
}

Result<std::int64_t> JsonFields::integer(std::string_view name) const {
  const JsonValue* value = TW_TRY(required(name));
  if (value->asInteger() == nullptr) return std::unexpected(errorAt(name, expected("an integer", *value)));
  return *value->asInteger();
}

Result<std::string> JsonFields::string(std::string_view name) const {
  const JsonValue* value = TW_TRY(required(name));
  if (value->asString() == nullptr) return std::unexpected(errorAt(name, expected("a string", *value)));
  return *value->asString();
}

Result<const JsonValue::Array*> JsonFields::array(std::string_view name) const {
  const JsonValue* value = TW_TRY(required(name));
  if (value->asArray() == nullptr) return std::unexpected(errorAt(name, expected("an array", *value)));
  return value->asArray();
}

Result<std::int64_t> JsonFields::integerOr(std::string_view name, std::int64_t fallback) const {
  if (find(name) == nullptr) return fallback;
  return integer(name);
}

Result<double> JsonFields::numberOr(std::string_view name, double fallback) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return fallback;
  if (value->asInteger() != nullptr) return static_cast<double>(*value->asInteger());
  if (value->asReal() == nullptr) return std::unexpected(errorAt(name, expected("a number", *value)));
  return *value->asReal();
}

Result<bool> JsonFields::booleanOr(std::string_view name, bool fallback) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return fallback;
  if (value->asBoolean() == nullptr) return std::unexpected(errorAt(name, expected("a boolean", *value)));
  return *value->asBoolean();
}

Result<std::string> JsonFields::stringOr(std::string_view name, std::string_view fallback) const {
  if (find(name) == nullptr) return std::string(fallback);
  return string(name);
}

std::string JsonFields::pathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

Error JsonFields::errorAt(std::string_view name, std::string_view message) const {
  const JsonValue* value = find(name);
  return value == nullptr ? jsonError(*value_, path_, message) : jsonError(*value, pathOf(name), message);
}

Result<const JsonValue*> JsonFields::required(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::unexpected(jsonError(*value_, path_, fmt::format("key '{}' is missing", name)));
  return value;
}

}  // namespace tilewright
