// attention.portable: the tile program of online-softmax attention, lowered to the CPU. Right for every problem: any
// head dim that is a multiple of 8, any strides, inner ones too, any alignment.
//
// Each program reads its KV head once for all its rows. With pack_heads its rows are the query heads that share a KV
// head at one position: what few query rows need. Up to eight rows the scores' lanes run along head_dim.
#pragma once

#include "templates/template.h"

namespace tilewright {

const Template& attentionPortable();

}  // namespace tilewright
