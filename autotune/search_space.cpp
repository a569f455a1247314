#include "autotune/search_space.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <numeric>
#include <random>

namespace tilewright::autotune {
namespace {

constexpr int kRandomShare = 4;  // one candidate in four is drawn at random

struct Enumeration {
  std::vector<Configuration> accepted;  // in the fixed order
  std::vector<ConstraintCount> refused;
};

// Walks the product of the parameters' values, last parameter fastest, and counts what refuses.
Enumeration enumerate(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device) {
  const std::vector<Parameter> parameters = kernelTemplate.parameters(problem, device);
  Enumeration result;
  std::map<std::string, std::int64_t> counts;
  if (std::ranges::any_of(parameters, [](const Parameter& each) { return each.values.empty(); })) return result;

  std::vector<std::size_t> digit(parameters.size(), 0);
  while (true) {
    Configuration configuration;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      configuration.set(parameters[i].name, parameters[i].values[digit[i]]);
    }
    if (const auto refusal = kernelTemplate.refusesConfiguration(problem, device, configuration)) {
      ++counts[refusal->constraint];
    } else {
      result.accepted.push_back(std::move(configuration));
    }
    std::size_t i = parameters.size();
    while (i > 0 && ++digit[i - 1] == parameters[i - 1].values.size()) digit[--i] = 0;
    if (i == 0) break;
  }
  for (const auto& [constraint, count] : counts) result.refused.push_back({&kernelTemplate, constraint, count});
  return result;
}

// The space of one template while it is pruned.
struct Pool {
  const Template* kernelTemplate = nullptr;
  std::vector<Candidate> all;  // fixed order
  std::vector<int> ranked;     // indices into `all`, fastest predicted first, default left out
  std::size_t taken = 0;       // how many of `ranked` are kept
  int defaultIndex = 0;
  std::vector<bool> keep;
};

Pool makePool(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device,
              std::vector<Configuration> accepted) {
  Pool pool;
  pool.kernelTemplate = &kernelTemplate;
  const Configuration defaults = kernelTemplate.defaultConfiguration(problem, device);
  auto place = std::ranges::find(accepted, defaults);
  // A default outside the enumerated values comes first: it is the simplest thing that the template does.
  if (place == accepted.end()) place = accepted.insert(accepted.begin(), defaults);
  pool.defaultIndex = static_cast<int>(place - accepted.begin());
  for (Configuration& each : accepted) {
    const double predicted = kernelTemplate.predictMicroseconds(problem, device, each);
    pool.all.push_back({&kernelTemplate, std::move(each), predicted});
  }
  for (const int i : probeOrder(pool.all)) {
    if (i != pool.defaultIndex) pool.ranked.push_back(i);
  }
  pool.keep.assign(pool.all.size(), false);
  pool.keep[pool.defaultIndex] = true;
  return pool;
}

// Keeps the next best predicted configuration of the pool; false if all are kept.
bool takeNext(Pool& pool) {
  if (pool.taken == pool.ranked.size()) return false;
  pool.keep[pool.ranked[pool.taken++]] = true;
  return true;
}

// Spends the cap: a fair share for each template, then the best predicted over all, then random ones.
void prune(std::vector<Pool>& pools, const SearchOptions& options) {
  int left = options.cap - static_cast<int>(pools.size());
  const int random = std::max(left, 0) / kRandomShare;
  const int fairShare = (left - random) / (2 * static_cast<int>(pools.size()));
  for (Pool& pool : pools) {
    for (int i = 0; i < fairShare && left > random && takeNext(pool); ++i) --left;
  }
  while (left > random) {
    Pool* best = nullptr;
    double fastest = std::numeric_limits<double>::infinity();
    for (Pool& pool : pools) {
      if (pool.taken == pool.ranked.size()) continue;
      const double predicted = pool.all[pool.ranked[pool.taken]].predictedMicroseconds;
      if (best == nullptr || predicted < fastest) best = &pool, fastest = predicted;
    }
    if (best == nullptr) return;
    takeNext(*best);
    --left;
  }

  std::vector<std::pair<Pool*, int>> rest;
  for (Pool& pool : pools) {
    for (std::size_t i = pool.taken; i < pool.ranked.size(); ++i) rest.emplace_back(&pool, pool.ranked[i]);
  }
  std::mt19937_64 generator(options.seed);
  for (; left > 0 && !rest.empty(); --left) {
    // Reduced by hand: the standard's distributions differ between libraries, and two machines must draw alike.
    const std::size_t drawn = generator() % rest.size();
    rest[drawn].first->keep[rest[drawn].second] = true;
    rest[drawn] = rest.back();
    rest.pop_back();
  }
}

}  // namespace

Result<SearchSpace> buildSearchSpace(const Problem& problem, const DeviceInfo& device,
                                     std::span<const Template* const> templates, const SearchOptions& options) {
  SearchSpace space;
  std::vector<Pool> pools;
  for (const Template* each : templates) {
    if (each->operation() != problem.operation) continue;
    if (auto refusal = each->refuses(problem, device)) {
      space.refusedTemplates.push_back({each, std::move(*refusal)});
      continue;
    }
    Enumeration enumeration = enumerate(*each, problem, device);
    std::ranges::move(enumeration.refused, std::back_inserter(space.refusedConfigurations));
    pools.push_back(makePool(*each, problem, device, std::move(enumeration.accepted)));
    space.accepted += static_cast<std::int64_t>(pools.back().all.size());
  }
  if (pools.empty()) {
    return fail(ErrorCode::kUnsupported, "no template computes {} on {}: {}", toJson(problem), device.target,
                refusalReasons(problem, device, templates));
  }

  prune(pools, options);
  const Template* defaultOf = defaultTemplate(problem, device, templates);
  for (Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.all.size(); ++i) {
      if (!pool.keep[i]) continue;
      if (pool.kernelTemplate == defaultOf && static_cast<int>(i) == pool.defaultIndex) {
        space.defaultCandidate = static_cast<int>(space.candidates.size());
      }
      space.candidates.push_back(std::move(pool.all[i]));
    }
  }
  return space;
}

std::string refusalReasons(const Problem& problem, const DeviceInfo& device,
                           std::span<const Template* const> templates) {
  std::string reasons;
  for (const Template* each : templates) {
    if (each->operation() != problem.operation) continue;
    const auto refusal = each->refuses(problem, device);
    if (refusal) reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", each->id(), refusal->reason);
  }
  return reasons.empty() ? fmt::format("there is no template of {}", operationName(problem.operation)) : reasons;
}

std::vector<Candidate> neighbours(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  std::vector<Candidate> found;
  for (const Parameter& parameter : candidate.kernelTemplate->parameters(problem, device)) {
    const std::int64_t* current = candidate.configuration.find(parameter.name);
    if (current == nullptr) continue;
    // Values are ordered by preference, not by size: a step goes to the next smaller and the next larger value.
    std::vector<std::int64_t> values = parameter.values;
    std::ranges::sort(values);
    const auto above = std::ranges::upper_bound(values, *current);
    const auto below = std::ranges::lower_bound(values, *current);
    const auto add = [&](std::int64_t value) {
      Candidate neighbour = candidate;
      neighbour.configuration.set(parameter.name, value);
      if (candidate.kernelTemplate->refusesConfiguration(problem, device, neighbour.configuration)) return;
      neighbour.predictedMicroseconds =
          candidate.kernelTemplate->predictMicroseconds(problem, device, neighbour.configuration);
      found.push_back(std::move(neighbour));
    };
    if (below != values.begin()) add(*std::prev(below));
    if (above != values.end()) add(*above);
  }
  return found;
}

const Template* defaultTemplate(const Problem& problem, const DeviceInfo& device,
                                std::span<const Template* const> templates) {
  const Template* best = nullptr;
  double fastest = 0;
  for (const Template* each : templates) {
    if (each->operation() != problem.operation || each->refuses(problem, device)) continue;
    const double predicted = each->predictMicroseconds(problem, device, each->defaultConfiguration(problem, device));
    if (best == nullptr || predicted < fastest) best = each, fastest = predicted;
  }
  return best;
}

std::vector<int> probeOrder(const std::vector<Candidate>& candidates) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int i) { return candidates[i].predictedMicroseconds; });
  return order;
}

}  // namespace tilewright::autotune
