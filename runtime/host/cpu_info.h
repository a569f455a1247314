// The host's CPU as a DeviceInfo: name, instruction set, caches and nominal rates.
#pragma once

#include <string_view>

#include "base/device_info.h"

namespace tilewright {

DeviceInfo describeCpu();

/// Whether code for `target` runs on a CPU whose own target is `cpu`: "x86-64", "x86-64-v3" and "x86-64-v4" each
/// include the ones before.
bool cpuRuns(std::string_view target, std::string_view cpu);

}  // namespace tilewright
