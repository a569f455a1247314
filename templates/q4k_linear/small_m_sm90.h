// q4k_linear.small_m_sm90: the host half of small_m_sm90.cu, for up to 32 rows of x.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& q4kLinearSmallMSm90();

}  // namespace tilewright
