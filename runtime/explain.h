// A selection as JSON: what would run, from which database, why, and what refused the others.
#pragma once

#include <span>
#include <string>

#include "base/device_info.h"
#include "cache/layers.h"
#include "format/json_value.h"
#include "runtime/selection.h"

namespace tilewright {

/// The listing of `tilewright explain --json` (docs/formats.md): "plans", best first and then what was refused, beside
/// "problem", "device" and "provenance"; and two lists of lines, "notes" on this selection and the dispatcher's
/// "warnings".
JsonValue explainJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers,
                      std::span<const std::string> warnings);

}  // namespace tilewright
