// Listings: the form of everything that a command prints with --json. One object with a version and one array, an entry
// a line, so that a listing is both JSON and pleasant to read and to diff:
//   {"version": 1, "winners": [
//     {"problem": {"op": "linear", ...}, "template": "linear.portable", ...},
//     {...}
//   ]}
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/json_value.h"

namespace tilewright {

inline constexpr int kListingVersion = 1;

/// The text of a listing with a final newline. `extra` members, of which none is an array, follow the array.
std::string listingText(std::string_view name, const JsonValue::Array& entries, const JsonValue::Object& extra = {});

/// The array `name` of a listing. kVersion for another version; kInvalidArgument for keys other than "version", `name`
/// and `optionalKeys`. The value must outlive the result.
Result<const JsonValue::Array*> listingEntries(const JsonValue& value, std::string_view name,
                                               std::initializer_list<std::string_view> optionalKeys = {});

}  // namespace tilewright
