#include "format/configuration_json.h"

#include "format/json_fields.h"
#include "format/json_parse.h"

namespace tilewright {

Result<ConfigurationEntries> configurationFromJson(const JsonValue& value, std::string path) {
  const JsonFields fields = TW_TRY(JsonFields::of(value, std::move(path)));
  ConfigurationEntries entries;
  for (const JsonMember& member : *value.asObject()) {
    entries.emplace_back(member.name, TW_TRY(fields.integer(member.name)));
  }
  return entries;
}

Result<ConfigurationEntries> parseConfiguration(std::string_view text) {
  return configurationFromJson(TW_TRY(parseJson(text)));
}

JsonValue configurationToJson(const ConfigurationEntries& entries) {
  JsonValue::Object members;
  for (const auto& [name, value] : entries) members.push_back({name, value});
  return members;
}

}  // namespace tilewright
