// q4k_linear.plain_cuda: the plain kernel for Q4_K weights decoded to BF16 on any GPU (see
// templates/common/plain_gemm.h).
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& q4kLinearPlainCuda();

}  // namespace tilewright
