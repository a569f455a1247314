// From a model's layers to problems: linears times a ladder of row counts, attention times ladders of query and key
// length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "format/problem_json.h"
#include "tools/model_shapes/model.h"

namespace tilewright {

/// What the command line changes; an empty ladder takes the default.
struct ShapeOptions {
  std::vector<std::int64_t> rows;     ///< --m
  std::vector<std::int64_t> queries;  ///< --q
  std::vector<std::int64_t> keys;     ///< --kv
  std::vector<std::int64_t> batches;  ///< --batch, of attention
  std::vector<Precision> precisions{Precision::kExact};
  int tensorParallel = 1;
  bool prepared = false;  ///< --prepared: of every q4k_linear
};

inline constexpr std::int64_t kDefaultRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
/// The output head runs for the rows that are sampled, not for a whole prompt: its default ladder ends here.
inline constexpr std::int64_t kDefaultOutputRows = 256;
inline constexpr std::int64_t kDefaultQueries[] = {1, 16, 128, 512, 2048, 8192};
/// Lengths above the model's context are replaced by it.
inline constexpr std::int64_t kDefaultKeys[] = {1024, 4096, 16384, 65536, 131072};

struct ModelShapes {
  std::vector<ListedProblem> problems;
  NotCovered notCovered;
};

/// One device's share of the model under tensor parallelism. Query lengths above the key length are left out. What
/// cannot be divided or computed is counted in `notCovered`. kInvalidArgument for sizes that break a problem's other
/// rules.
Result<ModelShapes> deriveShapes(const Model& model, const ShapeOptions& options);

/// Appends `more`; equal problems become one, their counts add up, their uses are joined by '+'.
void mergeShapes(ModelShapes& shapes, ModelShapes more);

}  // namespace tilewright
