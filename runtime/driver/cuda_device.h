// A CUDA GPU as a Device. No cuda.h here, so that everything else can open one.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace tilewright {

/// The number of CUDA devices; kUnavailable without a driver, kUnsupported if this library was built without CUDA
/// headers.
Result<int> cudaDeviceCount();

/// Describes "cuda:<ordinal>" without creating a context. kNotFound when the driver has fewer devices.
Result<DeviceInfo> cudaDeviceInfo(int ordinal);

/// Opens "cuda:<ordinal>"; errors as cudaDeviceInfo. A context is adopted or retained at the first call that needs one
/// (anything but `info`).
Result<std::unique_ptr<Device>> openCudaDevice(int ordinal);

}  // namespace tilewright
