// A selection as JSON: what would run, from which database, why, and what refused the others.
#pragma once

#include <span>
#include <string>

#include "base/device_info.h"
#include "cache/layers.h"
#include "format/json_value.h"
#include "runtime/selection.h"

namespace tilewright {

/// The "plans" of `tilewright explain --json` (docs/formats.md): the candidates, best first, then what was refused.
JsonValue::Array plansJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers);

/// One object: the "plans" beside "problem", "device" and "provenance", and two lists of lines, "notes" on this
/// selection and the dispatcher's "warnings".
JsonValue explainJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers,
                      std::span<const std::string> warnings);

}  // namespace tilewright
