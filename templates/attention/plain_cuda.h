// attention.plain_cuda: the plain kernel on any GPU, for every layout, length and head dim. It holds the place of the
// portable path on GPUs; where a faster template accepts a problem, it wins.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& attentionPlainCuda();

}  // namespace tilewright
