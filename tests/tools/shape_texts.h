// Derived problems as short lines, for the tests of what reads models.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tools/model_shapes/model_shapes.h"

namespace tilewright {

/// "use count problem" of each, without what the tests hold fixed.
inline std::vector<std::string> textOf(const ModelShapes& shapes) {
  std::vector<std::string> lines;
  for (const ListedProblem& listed : shapes.problems) {
    const Problem& problem = listed.problem;
    if (problem.isLinear()) {
      lines.push_back(fmt::format("{} {} {} {}x{}{}{}", listed.use, listed.count, operationName(problem.operation),
                                  problem.linear.n, problem.linear.k, problem.linear.bias ? " bias" : "",
                                  problem.linear.prepared ? " prepared" : ""));
    } else {
      const AttentionShape& shape = problem.attention;
      lines.push_back(fmt::format("{} {} {}/{} d{}{}", listed.use, listed.count, shape.qHeads, shape.kvHeads,
                                  shape.headDim, shape.causal ? " causal" : ""));
    }
  }
  return lines;
}

}  // namespace tilewright
