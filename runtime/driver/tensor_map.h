// Encodes the tensor maps of a launch's arguments, in place, as the driver's 128 opaque bytes.
#pragma once

#include "runtime/driver/driver_api.h"
#include "templates/launch.h"

namespace tilewright {

/// kInvalidArgument for a map that breaks a rule of cuTensorMapEncodeTiled, with the map's sizes in the message.
Result<void> encodeTensorMaps(const DriverApi& api, KernelArguments& arguments);

}  // namespace tilewright
