// A stream and a graph of a CUDA device, for programs that have none of their own: Device launches on its caller's
// stream.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device.h"

namespace tilewright {

class CudaStream {
 public:
  virtual ~CudaStream() = default;

  virtual StreamHandle handle() const = 0;
  /// kDevice if a kernel on the stream faulted.
  virtual Result<void> synchronize() = 0;
  /// Records what `enqueue` puts on this stream as a graph, without running it; replaces the one recorded before.
  virtual Result<void> capture(const std::function<Result<void>(StreamHandle)>& enqueue) = 0;
  /// Enqueues the recorded graph; kInvalidArgument before the first capture.
  virtual Result<void> replay() = 0;
};

/// A stream that does not wait for the default one, in the context that `openDevice` uses for "cuda:<ordinal>".
Result<std::unique_ptr<CudaStream>> createCudaStream(int ordinal);

}  // namespace tilewright
