// The host's CPU as a Device: code of the tile compiler, its grid spread over threads by oneTBB.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace tilewright {

/// `loader` loads what the tile compiler built and must outlive the device; null: `load` answers kUnsupported.
/// `threads` run a launch, 0 for one per hardware thread.
std::unique_ptr<Device> makeCpuDevice(const HostLoader* loader, int threads = 0);

}  // namespace tilewright
