// linear.plain_cuda: the plain kernel for BF16 weights on any GPU (see templates/common/plain_gemm.h).
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& linearPlainCuda();

}  // namespace tilewright
