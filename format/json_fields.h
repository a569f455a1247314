// Typed access to the members of one JSON object of our own formats. Every error names the place, the path and the
// rule:
//   line 2, column 31, at problems[0].k: expected an integer, found a string
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/json_value.h"

namespace tilewright {

/// kInvalidArgument "line 2, column 31, at PATH: MESSAGE"; the place is left out for a value that has none.
Error jsonError(const JsonValue& value, std::string_view path, std::string_view message);

class JsonFields {
 public:
  /// `path` names the object in messages, such as "problems[0]"; may be empty. The value must outlive the result.
  static Result<JsonFields> of(const JsonValue& value, std::string path);

  /// Refuses members outside `names`; the message names the key and lists the allowed ones.
  Result<void> allowOnly(std::span<const std::string_view> names) const;

  // Required members.
  Result<std::int64_t> integer(std::string_view name) const;
  Result<std::string> string(std::string_view name) const;
  Result<const JsonValue::Array*> array(std::string_view name) const;

  // Members that may be missing. A null is a value of the wrong kind, not a missing one.
  Result<std::int64_t> integerOr(std::string_view name, std::int64_t fallback) const;
  Result<double> numberOr(std::string_view name, double fallback) const;
  Result<bool> booleanOr(std::string_view name, bool fallback) const;
  Result<std::string> stringOr(std::string_view name, std::string_view fallback) const;

  const JsonValue* find(std::string_view name) const { return value_->find(name); }
  const JsonValue& value() const { return *value_; }
  const std::string& path() const { return path_; }
  /// The path of a member.
  std::string pathOf(std::string_view name) const;
  /// An error at a member, or at the object if there is no such member.
  Error errorAt(std::string_view name, std::string_view message) const;

 private:
  JsonFields(const JsonValue& value, std::string path) : value_(&value), path_(std::move(path)) {}
  Result<const JsonValue*> required(std::string_view name) const;

  const JsonValue* value_;
  std::string path_;
};

}  // namespace tilewright
