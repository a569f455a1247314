// Problems for people: "q4k_linear n=14336 k=4096 m=512 fp8".
#pragma once

#include <string>

#include "base/problem.h"

namespace tilewright {

/// The shape without the operation: "n=14336 k=4096 m=512 fp8", "b=1 heads=32/8 d=128 q=512 kv=16384 causal".
std::string shapeText(const Problem& problem);

/// Operation and shape.
std::string problemText(const Problem& problem);

}  // namespace tilewright
