// Configurations in JSON, as templates/configuration.h writes them: {"tile_m": 128, "stages": 4}.
//
// The result is what a Configuration is constructed from. Which names and values make sense is the template's business:
// its refusesConfiguration() judges whatever a database or a file holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/json_value.h"

namespace tilewright {

using ConfigurationEntries = std::vector<std::pair<std::string, std::int64_t>>;

/// kInvalidArgument unless the value is an object whose members are all integers.
Result<ConfigurationEntries> configurationFromJson(const JsonValue& value, std::string path = "");
Result<ConfigurationEntries> parseConfiguration(std::string_view text);

/// The object, to put into a listing.
JsonValue configurationToJson(const ConfigurationEntries& entries);

}  // namespace tilewright
