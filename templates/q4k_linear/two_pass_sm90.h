// q4k_linear on Hopper in two passes: W expanded to 8 bits, then a product from shared memory.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& q4kLinearTwoPassSm90();

}  // namespace tilewright
