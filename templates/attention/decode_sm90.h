// attention.decode_sm90: 1 to 16 query rows on Hopper, KV split over all SMs by its length on the device.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& attentionDecodeSm90();

}  // namespace tilewright
