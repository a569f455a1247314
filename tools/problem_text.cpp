#include "tools/problem_text.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tilewright {

std::string shapeText(const Problem& problem) {
  std::string text;
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    text = fmt::format("n={} k={} m={}", shape.n, shape.k, shape.m);
    if (problem.operation == Operation::kQ4kLinear) text += fmt::format(" {}", precisionName(shape.precision));
    if (shape.bias) text += " bias";
    if (shape.prepared) text += " prepared";
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

std::vector<std::string> ladderTexts(std::span<const Problem> problems) {
  std::vector<std::string> lines;
  std::map<std::string, std::size_t> lineOf;
  for (const Problem& problem : problems) {
    Problem rest = problem;
    const std::int64_t size = std::exchange(problem.isLinear() ? rest.linear.m : rest.attention.kvLen, 0);
    std::string text = problemText(rest);
    const std::string_view name = problem.isLinear() ? " m=" : " kv=";
    text.erase(text.find(name), name.size() + 1);
    const auto [line, isNew] = lineOf.try_emplace(text, lines.size());
    if (isNew)
      lines.push_back(text + "," + std::string(name) + fmt::format("{}", size));
    else
      lines[line->second] += fmt::format(",{}", size);
  }
  return lines;
}

}  // namespace tilewright
