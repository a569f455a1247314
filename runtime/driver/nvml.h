// What only NVML knows of a GPU. It is opened at run time and may be missing.
#pragma once

#include <string>

namespace tilewright {

/// The enforced power limit in watts of the GPU with this PCI bus id ("0000:1b:00.0"), or 0 when it cannot be had.
int powerLimitWatts(const std::string& pciBusId);

}  // namespace tilewright
