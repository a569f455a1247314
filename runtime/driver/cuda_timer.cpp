#include "runtime/driver/cuda_timer.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/driver/cuda_graph.h"

namespace tilewright {

Result<std::vector<double>> timeGraphReplays(const DriverApi& api,
                                             const std::function<Result<void>(StreamHandle)>& enqueue,
                                             const MeasureOptions& options, CUdeviceptr flush, std::size_t flushBytes) {
  if (options.restMilliseconds > 0) {
    TW_TRY(api.check(api.ctxSynchronize(), "cannot synchronize before a measurement"));
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.restMilliseconds));
  }
  Owned<CUstream> stream(api.streamDestroy);
  TW_TRY(api.check(api.streamCreate(stream.out(), CU_STREAM_NON_BLOCKING), "cannot create a stream"));

  // The first run comes without a graph, so that a fault is reported as this kernel's.
  TW_TRY(enqueue(stream.get()));
  TW_TRY(api.check(api.streamSynchronize(stream.get()), "the kernel failed"));
  const Owned<CUgraphExec> graph = TW_TRY(captureGraph(api, stream.get(), enqueue));
  for (int i = 0; i < options.warmups; ++i) {
    TW_TRY(api.check(api.graphLaunch(graph.get(), stream.get()), "cannot launch a graph"));
  }

  const auto repeats = static_cast<std::size_t>(std::max(options.repeats, 0));
  std::vector<Owned<CUevent>> events;
  events.reserve(2 * repeats);
  const auto record = [&]() -> Result<void> {
    TW_TRY(api.check(api.eventCreate(events.emplace_back(api.eventDestroy).out(), CU_EVENT_DEFAULT),
                     "cannot create an event"));
    return api.check(api.eventRecord(events.back().get(), stream.get()), "cannot record an event");
  };
  for (std::size_t i = 0; i < repeats; ++i) {
    if (flushBytes > 0) {
      // Another value each time: memory compression must not make the flush cheap.
      TW_TRY(api.check(api.memsetD8Async(flush, static_cast<unsigned char>(i + 1), flushBytes, stream.get()),
                       "cannot flush the cache"));
    }
    TW_TRY(record());
    TW_TRY(api.check(api.graphLaunch(graph.get(), stream.get()), "cannot launch a graph"));
    TW_TRY(record());
  }
  TW_TRY(api.check(api.streamSynchronize(stream.get()), "the kernel failed while it was timed"));

  std::vector<double> microseconds(repeats);
  for (std::size_t i = 0; i < repeats; ++i) {
    float milliseconds = 0;
    TW_TRY(api.check(api.eventElapsedTime(&milliseconds, events[2 * i].get(), events[2 * i + 1].get()),
                     "cannot read an event"));
    microseconds[i] = 1e3 * milliseconds;
  }
  return microseconds;
}

}  // namespace tilewright
