// Problems for people: "q4k_linear n=14336 k=4096 m=512 fp8".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/problem.h"

namespace tilewright {

/// The shape without the operation: "n=14336 k=4096 m=512 fp8", "b=1 heads=32/8 d=128 q=512 kv=16384 causal".
std::string shapeText(const Problem& problem);

/// Operation and shape.
std::string problemText(const Problem& problem);

/// Lines "q4k_linear n=14336 k=4096 fp8, m=1,2,4" in the order of their first problem: problems that differ in their
/// last ladder alone (row counts, or key lengths) share one.
std::vector<std::string> ladderTexts(std::span<const Problem> problems);

}  // namespace tilewright
