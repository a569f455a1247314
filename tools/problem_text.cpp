#include "tools/problem_text.h"

#include <fmt/format.h>

namespace tilewright {

std::string shapeText(const Problem& problem) {
  std::string text;
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    text = fmt::format("n={} k={} m={}", shape.n, shape.k, shape.m);
    if (problem.operation == Operation::kQ4kLinear) text += fmt::format(" {}", precisionName(shape.precision));
    if (shape.bias) text += " bias";
  } else {
    const AttentionShape& shape = problem.attention;
    text = fmt::format("b={} heads={}/{} d={} q={} kv={}", shape.batch, shape.qHeads, shape.kvHeads, shape.headDim,
                       shape.qLen, shape.kvLen);
    if (shape.causal) text += " causal";
    if (shape.logSumExp) text += " lse";
  }
  if (problem.alignment == Alignment::kAny) text += " unaligned";
  return text;
}

std::string problemText(const Problem& problem) {
  return fmt::format("{} {}", operationName(problem.operation), shapeText(problem));
}

}  // namespace tilewright
