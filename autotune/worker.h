// The worker process: opens the device, and runs and times what the tuner sends, until the tuner goes away.
//
// It is a process of its own because a candidate may fault (which poisons a CUDA context for good), hang (a kernel
// cannot be evicted from within) or corrupt memory. Whatever it does then ends this process, and costs the candidate
// alone.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "runtime/device.h"
#include "templates/template.h"

namespace tilewright::autotune {

/// The first argument that makes a program of ours a worker: it must call serveTuner before it does anything else.
inline constexpr std::string_view kWorkerVerb = "tune-worker";

struct WorkerEnvironment {
  std::function<Result<std::unique_ptr<Device>>(std::string_view name)> openDevice;
  std::span<const Template* const> templates;
};

/// Serves the tuner that started this process. Returns the process's exit status: 0 when the tuner closed the
/// connection, 1 after an error that leaves the device unusable (the tuner has been told).
int serveTuner(const WorkerEnvironment& environment);

}  // namespace tilewright::autotune
