// q4k_linear.fused_sm90 and q4k_linear.exact_sm90: the host halves of fused_sm90.cu, with activations quantized to s8
// or e4m3, and with the caller's BF16.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& q4kLinearFusedSm90();
const Template& q4kLinearExactSm90();

}  // namespace tilewright
