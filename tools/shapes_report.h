// What `tune --dry-run` prints: the problems that the given models amount to, and what is not covered.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/model_shapes/model_shapes.h"
#include "tools/options.h"

namespace tilewright {

/// The problems of --model-shapes under the ladders, parallelism and precisions of the command line. Standard input is
/// read for "-".
Result<ModelShapes> shapesOf(const Options& options);
/// kNotFound, with what is not covered, if there is no problem.
Result<void> expectProblems(const ModelShapes& shapes);

/// A table for people, with what is not covered below it.
std::string shapesTable(const ModelShapes& shapes);
/// The listing {"version": 1, "problems": [...], "not_covered": {...}}; --model-shapes reads it back.
std::string shapesListing(const ModelShapes& shapes);
/// "not covered: 28 attention layers with a sliding window", a line a kind; empty if everything is covered.
std::string notCoveredText(const NotCovered& notCovered);

}  // namespace tilewright
