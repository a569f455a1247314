// attention.tma_sm90: TMA, wgmma and warp specialization for Hopper; many query rows.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& attentionTmaSm90();

}  // namespace tilewright
