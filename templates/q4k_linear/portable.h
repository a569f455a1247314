// q4k_linear.portable: the tile program for GGUF Q4_K weights, dequantized where they are used (see
// templates/common/portable_gemm.h).
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& q4kLinearPortable();

}  // namespace tilewright
