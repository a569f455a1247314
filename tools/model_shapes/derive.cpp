#include "tools/model_shapes/derive.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace tilewright {
namespace {

std::span<const std::int64_t> ladder(const std::vector<std::int64_t>& chosen, std::span<const std::int64_t> fallback) {
  return chosen.empty() ? fallback : chosen;
}

// Units per device: a share, or a whole unit where replication is allowed; nothing if neither works.
std::optional<std::int64_t> shareOf(std::int64_t units, int devices, bool replicates) {
  if (units % devices == 0) return units / devices;
  if (replicates && devices % units == 0) return 1;
  return std::nullopt;
}

// The shape of one device's share of a layer, with m still open.
std::optional<LinearShape> shapeOf(const LinearLayer& layer, int devices) {
  LinearShape shape{.k = layer.k, .bias = layer.bias};
  for (const LinearPart& part : layer.parts) {
    if (layer.split == Split::kRows) {
      shape.n += part.rows;
    } else if (layer.split == Split::kPaddedColumns) {
      shape.n += (part.rows + devices - 1) / devices;
    } else {
      if (part.rows % part.unit != 0) return std::nullopt;
      const auto units = shareOf(part.rows / part.unit, devices, part.replicates);
      if (!units) return std::nullopt;
      shape.n += *units * part.unit;
    }
  }
  if (layer.split == Split::kRows) {
    if (layer.k % devices != 0) return std::nullopt;
    shape.k /= devices;
    // One device adds the bias after the sum over the devices.
    if (devices > 1) shape.bias = false;
  }
  return shape;
}

// Far above any sweep, far below what would fill the memory: ladders multiply.
constexpr std::size_t kMaximumProblems = 100000;

Result<void> addProblem(ListedProblem listed, ModelShapes& shapes) {
  TW_TRY(validate(listed.problem));
  if (shapes.problems.size() == kMaximumProblems) {
    return fail(ErrorCode::kInvalidArgument, "the model and its ladders amount to more than {} problems",
                kMaximumProblems);
  }
  shapes.problems.push_back(std::move(listed));
  return {};
}

Result<void> addLinear(const LinearLayer& layer, const ShapeOptions& options, ModelShapes& shapes) {
  const auto shape = shapeOf(layer, options.tensorParallel);
  if (!shape) {
    shapes.notCovered[fmt::format("linears that {} devices do not divide", options.tensorParallel)] += layer.count;
    return {};
  }
  const bool q4k = layer.operation == Operation::kQ4kLinear;
  if (q4k && shape->k % 256 != 0) {
    shapes.notCovered[fmt::format("linears with k = {}, not a multiple of 256", shape->k)] += layer.count;
    return {};
  }
  constexpr Precision kExactOnly[] = {Precision::kExact};
  const bool outputDefaults = options.rows.empty() && layer.use == "output";
  for (const Precision precision : q4k ? std::span<const Precision>(options.precisions) : kExactOnly) {
    for (const std::int64_t m : ladder(options.rows, kDefaultRows)) {
      if (outputDefaults && m > kDefaultOutputRows) continue;
      ListedProblem listed{.problem = {.operation = layer.operation, .linear = *shape},
                           .count = static_cast<double>(layer.count),
                           .use = layer.use};
      listed.problem.linear.m = m;
      listed.problem.linear.precision = precision;
      listed.problem.linear.prepared = q4k && options.prepared;
      TW_TRY(addProblem(std::move(listed), shapes));
    }
  }
  return {};
}

std::vector<std::int64_t> keyLadder(const ShapeOptions& options, std::int64_t contextLength) {
  std::vector<std::int64_t> keys(std::begin(kDefaultKeys), std::end(kDefaultKeys));
  if (!options.keys.empty()) return options.keys;
  if (contextLength > 0) {
    for (std::int64_t& length : keys) length = std::min(length, contextLength);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  return keys;
}

Result<void> addAttention(const AttentionLayer& layer, const Model& model, const ShapeOptions& options,
                          ModelShapes& shapes) {
  const auto qHeads = shareOf(layer.qHeads, options.tensorParallel, false);
  const auto kvHeads = shareOf(layer.kvHeads, options.tensorParallel, true);
  if (!qHeads || !kvHeads || *qHeads % *kvHeads != 0) {
    shapes.notCovered[fmt::format("attention layers with {} query and {} key-value heads on {} devices", layer.qHeads,
                                  layer.kvHeads, options.tensorParallel)] += layer.count;
    return {};
  }
  if (layer.headDim < 8 || layer.headDim > 256 || layer.headDim % 8 != 0) {
    shapes.notCovered[fmt::format("attention layers with head_dim {}", layer.headDim)] += layer.count;
    return {};
  }
  constexpr std::int64_t kOneBatch[] = {1};
  const std::vector<std::int64_t> keys = keyLadder(options, model.contextLength);
  for (const std::int64_t batch : ladder(options.batches, kOneBatch)) {
    for (const std::int64_t qLen : ladder(options.queries, kDefaultQueries)) {
      for (const std::int64_t kvLen : keys) {
        if (qLen > kvLen) continue;
        ListedProblem listed{.problem = {.operation = Operation::kAttention,
                                         .attention = {.batch = batch,
                                                       .qHeads = *qHeads,
                                                       .kvHeads = *kvHeads,
                                                       .headDim = layer.headDim,
                                                       .qLen = qLen,
                                                       .kvLen = kvLen,
                                                       .causal = layer.causal}},
                             .count = static_cast<double>(layer.count),
                             .use = "attention"};
        TW_TRY(addProblem(std::move(listed), shapes));
      }
    }
  }
  return {};
}

struct PackedHash {
  std::size_t operator()(const PackedProblem& packed) const {
    std::uint64_t hash = 0;
    for (const std::uint64_t word : packed) hash = (hash ^ word) * 0x9e3779b97f4a7c15 + (hash >> 29);
    return hash;
  }
};

bool hasUse(std::string_view joined, std::string_view use) {
  while (!joined.empty()) {
    const std::size_t end = joined.find('+');
    if (joined.substr(0, end) == use) return true;
    joined.remove_prefix(end == std::string_view::npos ? joined.size() : end + 1);
  }
  return use.empty();
}

}  // namespace

Result<ModelShapes> deriveShapes(const Model& model, const ShapeOptions& options) {
  ModelShapes shapes;
  for (const LinearLayer& layer : model.linears) TW_TRY(addLinear(layer, options, shapes));
  for (const AttentionLayer& layer : model.attentions) TW_TRY(addAttention(layer, model, options, shapes));
  ModelShapes merged{.notCovered = model.notCovered};
  mergeShapes(merged, std::move(shapes));
  return merged;
}

void mergeShapes(ModelShapes& shapes, ModelShapes more) {
  std::unordered_map<PackedProblem, std::size_t, PackedHash> known;
  for (std::size_t i = 0; i < shapes.problems.size(); ++i) known.emplace(pack(shapes.problems[i].problem), i);
  for (ListedProblem& listed : more.problems) {
    const auto [at, isNew] = known.try_emplace(pack(listed.problem), shapes.problems.size());
    if (isNew) {
      shapes.problems.push_back(std::move(listed));
      continue;
    }
    ListedProblem& same = shapes.problems[at->second];
    same.count += listed.count;
    if (!hasUse(same.use, listed.use)) same.use += (same.use.empty() ? "" : "+") + listed.use;
  }
  for (const auto& [kind, count] : more.notCovered) shapes.notCovered[kind] += count;
}

}  // namespace tilewright
