#include "tools/shapes_report.h"

#include <iostream>

#include "format/listing.h"
#include "tools/problem_text.h"
#include "tools/table.h"

namespace tilewright {

Result<ModelShapes> shapesOf(const Options& options) {
  return readModelShapes(options.modelShapes, options.shapes, std::cin);
}

std::string shapesTable(const ModelShapes& shapes) {
  Table table({{"use"}, {"calls", Table::Side::kRight}, {"operation"}, {"shape"}});
  for (const ListedProblem& listed : shapes.problems) {
    table.add({listed.use, fmt::format("{}", listed.count), std::string(operationName(listed.problem.operation)),
               shapeText(listed.problem)});
  }
  return fmt::format("{}{} problems\n{}", table.empty() ? "" : table.text(), shapes.problems.size(),
                     notCoveredText(shapes.notCovered));
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
