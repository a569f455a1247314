// A selection as JSON: what would run, from which database, why, and what refused the others.
#pragma once

#include <span>
#include <string>

#include "base/device_info.h"
#include "cache/layers.h"
#include "format/json_value.h"
#include "runtime/selection.h"

namespace tilewright {

/// {"version": 1, "problem": {...}, "device": "...", "provenance": "exact", "candidates": [...], "refused": [...],
///  "notes": [...], "warnings": [...]}, described in docs/formats.md. `warnings` are the dispatcher's.
JsonValue explainJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers,
                      std::span<const std::string> warnings);

}  // namespace tilewright
