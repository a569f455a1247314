#include "tools/shapes_report.h"

#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "format/listing.h"
#include "tools/problem_text.h"
#include "tools/table.h"

namespace tilewright {
namespace {

// shapeText without the size that the last ladder gives.
std::string fixedShapeText(const Problem& problem) {
  std::string text = shapeText(problem);
  const std::string size = problem.isLinear() ? " m=0" : " kv=0";
  return text.erase(text.find(size), size.size());
}

}  // namespace

Result<ModelShapes> shapesOf(const Options& options) {
  return readModelShapes(options.modelShapes, options.shapes, std::cin);
}

Result<void> expectProblems(const ModelShapes& shapes) {
  if (!shapes.problems.empty()) return {};
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : shapes.notCovered) kinds.push_back(fmt::format("{} {}", count, kind));
  return fail(ErrorCode::kNotFound, "no problems: the input {}{}",
              kinds.empty() ? "lists none" : "has only what is not covered: ", fmt::join(kinds, ", "));
}

std::string shapesTable(const ModelShapes& shapes) {
  // A line holds the problems that differ in their last ladder alone: row counts, or key lengths.
  struct Line {
    const ListedProblem* first;
    std::string shape, sizes;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> lineOf;
  for (const ListedProblem& listed : shapes.problems) {
    Problem rest = listed.problem;
    const bool linear = rest.isLinear();
    const std::int64_t size = std::exchange(linear ? rest.linear.m : rest.attention.kvLen, 0);
    const std::string key = fmt::format("{} {} {}", toJson(rest), listed.count, listed.use);
    const auto [line, isNew] = lineOf.try_emplace(key, lines.size());
    if (isNew) lines.push_back({&listed, fixedShapeText(rest), linear ? "m=" : "kv="});
    std::string& sizes = lines[line->second].sizes;
    sizes += fmt::format("{}{}", sizes.back() == '=' ? "" : ",", size);
  }
  Table table({{"use"}, {"calls", Table::Side::kRight}, {"operation"}, {"shape"}, {"sizes"}});
  for (const Line& line : lines) {
    table.add({line.first->use, fmt::format("{}", line.first->count),
               std::string(operationName(line.first->problem.operation)), line.shape, line.sizes});
  }
  return fmt::format("{}{} problem{}\n{}", table.empty() ? "" : table.text(), shapes.problems.size(),
                     shapes.problems.size() == 1 ? "" : "s", notCoveredText(shapes.notCovered));
}

std::string shapesListing(const ModelShapes& shapes) {
  JsonValue::Array entries;
  for (const ListedProblem& listed : shapes.problems) entries.push_back(listedProblemToJson(listed));
  JsonValue notCovered{JsonValue::Object{}};
  for (const auto& [kind, count] : shapes.notCovered) notCovered.add(kind, count);
  return listingText("problems", entries, {{"not_covered", std::move(notCovered)}});
}

std::string notCoveredText(const NotCovered& notCovered) {
  std::string text;
  for (const auto& [kind, count] : notCovered) text += fmt::format("not covered: {} {}\n", count, kind);
  return text;
}

}  // namespace tilewright
