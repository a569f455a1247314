#include "format/listing.h"

#include "format/json_fields.h"

namespace tilewright {

std::string listingText(std::string_view name, const JsonValue::Array& entries, const JsonValue::Object& extra) {
  std::string text = fmt::format("{{\"version\": {}, {}: [", kListingVersion, jsonQuote(name));
  for (std::size_t i = 0; i < entries.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + entries[i].text();
  text += entries.empty() ? "]" : "\n]";
  for (const JsonMember& member : extra) text += fmt::format(", {}: {}", jsonQuote(member.name), member.value.text());
  return text + "}\n";
}

Result<const JsonValue::Array*> listingEntries(const JsonValue& value, std::string_view name,
                                               std::initializer_list<std::string_view> optionalKeys) {
  const JsonFields fields = TW_TRY(JsonFields::of(value, ""));
  std::vector<std::string_view> allowed = {"version", name};
  allowed.insert(allowed.end(), optionalKeys);
  TW_TRY(fields.allowOnly(allowed));
  const std::int64_t version = TW_TRY(fields.integer("version"));
  if (version != kListingVersion) {
    Error error =
        fields.errorAt("version", fmt::format("version is {}, this program reads {}", version, kListingVersion));
    error.code = ErrorCode::kVersion;
    return std::unexpected(std::move(error));
  }
  return fields.array(name);
}

}  // namespace tilewright
