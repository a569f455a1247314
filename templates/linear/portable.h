// linear.portable: the tile program for BF16 weights (see templates/common/portable_gemm.h).
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& linearPortable();

}  // namespace tilewright
