// The CUDA context that a device works in, and making it current for the time of a call.
//
// Frameworks share one context per device. If the caller has one current on the device at first use (PyTorch has), that
// one is adopted; otherwise the device's primary context is retained, the one that every CUDA runtime program uses.
#pragma once

#include "runtime/driver/driver_api.h"

namespace tilewright {

class CudaContext {
 public:
  static Result<std::shared_ptr<const CudaContext>> create(std::shared_ptr<const DriverApi> api, CUdevice device);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  const DriverApi& api() const { return *api_; }
  CUcontext get() const { return context_; }

 private:
  CudaContext(std::shared_ptr<const DriverApi> api, CUdevice device, CUcontext context, bool retained)
      : api_(std::move(api)), device_(device), context_(context), retained_(retained) {}

  std::shared_ptr<const DriverApi> api_;
  CUdevice device_;
  CUcontext context_;
  bool retained_;
};

/// Makes a context current in this thread until the end of the scope. Free when it already is.
class ContextScope {
 public:
  explicit ContextScope(const CudaContext& context) : api_(context.api()) {
    CUcontext current = nullptr;
    result_ = api_.ctxGetCurrent(&current);
    if (result_ != CUDA_SUCCESS || current == context.get()) return;
    result_ = api_.ctxPushCurrent(context.get());
    pushed_ = result_ == CUDA_SUCCESS;
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) api_.ctxPopCurrent(&popped);
  }

  Result<void> result() const { return api_.check(result_, "cannot make the CUDA context current"); }

 private:
  const DriverApi& api_;
  CUresult result_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

}  // namespace tilewright
