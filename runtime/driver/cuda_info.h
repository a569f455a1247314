// A CUDA device described from the driver's attributes. Creates no context.
#pragma once

#include "base/device_info.h"
#include "runtime/driver/driver_api.h"

namespace tilewright {

Result<DeviceInfo> describeCudaDevice(const DriverApi& api, CUdevice device);

}  // namespace tilewright
