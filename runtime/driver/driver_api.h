// The CUDA driver, opened at run time: one table of its functions, and its error codes as Results.
//
// Names carry the driver's own version suffix, because cuda.h's macros must not choose for us: the table binds what the
// suffix says on every driver from CUDA 12 on.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "base/shared_library.h"

// The table of driver symbols: X(member, symbol).
#define TILEWRIGHT_DRIVER_SYMBOLS(X)                       \
  X(init, cuInit)                                          \
  X(driverGetVersion, cuDriverGetVersion)                  \
  X(getErrorName, cuGetErrorName)                          \
  X(getErrorString, cuGetErrorString)                      \
  X(deviceGetCount, cuDeviceGetCount)                      \
  X(deviceGet, cuDeviceGet)                                \
  X(deviceGetName, cuDeviceGetName)                        \
  X(deviceGetAttribute, cuDeviceGetAttribute)              \
  X(deviceGetPciBusId, cuDeviceGetPCIBusId)                \
  X(deviceTotalMem, cuDeviceTotalMem_v2)                   \
  X(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)      \
  X(devicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2) \
  X(ctxGetCurrent, cuCtxGetCurrent)                        \
  X(ctxGetDevice, cuCtxGetDevice)                          \
  X(ctxPushCurrent, cuCtxPushCurrent_v2)                   \
  X(ctxPopCurrent, cuCtxPopCurrent_v2)                     \
  X(ctxSynchronize, cuCtxSynchronize)                      \
  X(moduleLoadDataEx, cuModuleLoadDataEx)                  \
  X(moduleUnload, cuModuleUnload)                          \
  X(moduleGetFunction, cuModuleGetFunction)                \
  X(funcGetAttribute, cuFuncGetAttribute)                  \
  X(funcSetAttribute, cuFuncSetAttribute)                  \
  X(launchKernelEx, cuLaunchKernelEx)                      \
  X(tensorMapEncodeTiled, cuTensorMapEncodeTiled)          \
  X(memAlloc, cuMemAlloc_v2)                               \
  X(memFree, cuMemFree_v2)                                 \
  X(pointerGetAttributes, cuPointerGetAttributes)          \
  X(memcpyHtoD, cuMemcpyHtoD_v2)                           \
  X(memcpyDtoH, cuMemcpyDtoH_v2)                           \
  X(memsetD8Async, cuMemsetD8Async)                        \
  X(streamCreate, cuStreamCreate)                          \
  X(streamDestroy, cuStreamDestroy_v2)                     \
  X(streamSynchronize, cuStreamSynchronize)                \
  X(streamBeginCapture, cuStreamBeginCapture_v2)           \
  X(streamEndCapture, cuStreamEndCapture)                  \
  X(eventCreate, cuEventCreate)                            \
  X(eventDestroy, cuEventDestroy_v2)                       \
  X(eventRecord, cuEventRecord)                            \
  X(eventElapsedTime, cuEventElapsedTime)                  \
  X(graphInstantiate, cuGraphInstantiateWithFlags)         \
  X(graphLaunch, cuGraphLaunch)                            \
  X(graphExecDestroy, cuGraphExecDestroy)                  \
  X(graphDestroy, cuGraphDestroy)

namespace tilewright {

class DriverApi {
 public:
  /// Opens libcuda.so.1 and initializes it. kUnavailable without a driver, or with one older than CUDA 12. A driver
  /// that has no device is open and has a device count of 0.
  static Result<std::shared_ptr<const DriverApi>> open();

#define TILEWRIGHT_MEMBER(member, symbol) decltype(&symbol) member = nullptr;
  TILEWRIGHT_DRIVER_SYMBOLS(TILEWRIGHT_MEMBER)
#undef TILEWRIGHT_MEMBER

  int deviceCount() const { return deviceCount_; }

  /// Success, or the error's code with the message "<attempt>: CUDA_ERROR_NAME (the driver's sentence)".
  template <typename... Arguments>
  Result<void> check(CUresult result, fmt::format_string<Arguments...> attempt, Arguments&&... arguments) const {
    if (result == CUDA_SUCCESS) [[likely]]
      return {};
    return std::unexpected(error(result, fmt::format(attempt, std::forward<Arguments>(arguments)...)));
  }
  Error error(CUresult result, std::string attempt) const;

  /// The entry's name, for messages; "kernel" when the driver is too old to tell.
  std::string functionName(CUfunction function) const;
  /// Loads the entry's code now; drivers before CUDA 12.4 cannot be asked and do so by themselves.
  CUresult loadFunction(CUfunction function) const;

 private:
  explicit DriverApi(SharedLibrary library) : library_(std::move(library)) {}

  SharedLibrary library_;
  int deviceCount_ = 0;
};

}  // namespace tilewright
