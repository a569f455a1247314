// The list of templates. Order matters: it breaks ties between equally fast plans, simplest first.
#include <array>

#include "templates/attention/decode_sm90.h"
#include "templates/attention/plain_cuda.h"
#include "templates/attention/portable.h"
#include "templates/attention/tma_sm90.h"
#include "templates/linear/plain_cuda.h"
#include "templates/linear/portable.h"
#include "templates/q4k_linear/fused_sm90.h"
#include "templates/q4k_linear/plain_cuda.h"
#include "templates/q4k_linear/portable.h"
#include "templates/q4k_linear/small_m_sm90.h"
#include "templates/q4k_linear/two_pass_sm90.h"
#include "templates/template.h"

namespace tilewright {

std::span<const Template* const> allTemplates() {
  static const std::array kTemplates{&linearPlainCuda(),     &linearPortable(),       &q4kLinearPlainCuda(),
                                     &q4kLinearPortable(),   &q4kLinearExactSm90(),   &q4kLinearFusedSm90(),
                                     &q4kLinearSmallMSm90(), &q4kLinearTwoPassSm90(), &attentionPlainCuda(),
                                     &attentionPortable(),   &attentionTmaSm90(),     &attentionDecodeSm90()};
  return kTemplates;
}

}  // namespace tilewright
