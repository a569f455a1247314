// Ownership of the driver's small objects, and recording a stream's work as a graph.
#pragma once

#include <functional>
#include <utility>

#include "runtime/device.h"
#include "runtime/driver/driver_api.h"

namespace tilewright {

/// One driver object and the function that destroys it.
template <typename Handle>
class Owned {
 public:
  using Destroy = CUresult (*)(Handle);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_), std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) destroy_(handle_);
  }

  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_;
};

/// Captures one call of `enqueue` as a graph that can be launched.
Result<Owned<CUgraphExec>> captureGraph(const DriverApi& api, CUstream stream,
                                        const std::function<Result<void>(StreamHandle)>& enqueue);

}  // namespace tilewright
