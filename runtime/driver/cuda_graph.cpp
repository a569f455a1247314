#include "runtime/driver/cuda_graph.h"

namespace tilewright {

Result<Owned<CUgraphExec>> captureGraph(const DriverApi& api, CUstream stream,
                                        const std::function<Result<void>(StreamHandle)>& enqueue) {
  TW_TRY(
      api.check(api.streamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cannot begin a graph capture"));
  const Result<void> enqueued = enqueue(stream);
  // NOTE: a capture must be ended even when the enqueueing failed, or the stream stays in capture mode.
  Owned<CUgraph> graph(api.graphDestroy);
  const CUresult ended = api.streamEndCapture(stream, graph.out());
  if (!enqueued) return std::unexpected(enqueued.error());
  TW_TRY(api.check(ended, "cannot capture a graph"));
  Owned<CUgraphExec> executable(api.graphExecDestroy);
  TW_TRY(api.check(api.graphInstantiate(executable.out(), graph.get(), 0), "cannot instantiate a graph"));
  return executable;
}

}  // namespace tilewright
