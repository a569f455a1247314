// Times what a caller enqueues: graph replays between device events, with the L2 cache flushed before each.
#pragma once

#include <functional>
#include <vector>

#include "runtime/device.h"
#include "runtime/driver/cuda_context.h"

namespace tilewright {

/// Microseconds of each repeat. The context must be current. `flush` is overwritten before each repeat (none if 0
/// bytes).
///
///   memset flush | event | graph | event | memset flush | event | graph | event | ...
///
/// All of it is queued at once: while the GPU overwrites the flush buffer, the host has time to queue the next graph,
/// so that no launch gap falls between the events.
Result<std::vector<double>> timeGraphReplays(const DriverApi& api,
                                             const std::function<Result<void>(StreamHandle)>& enqueue,
                                             const MeasureOptions& options, CUdeviceptr flush, std::size_t flushBytes);

}  // namespace tilewright
