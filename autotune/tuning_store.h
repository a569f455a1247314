// What the tuner reads from and writes to a tuning database: which problems are done, which plans were refused before,
// and the winners with their binaries.
//
// A problem is done under a policy: the tuner's version, the effort, and a hash over the build keys of the default of
// every template that computes it, which any change of a kernel source, a compiler or the list of templates changes. A
// refusal is remembered with the build keys of the refused plan, so that it is forgotten when the plan's code changes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autotune/builder.h"
#include "autotune/outcome.h"
#include "autotune/race_plan.h"
#include "cache/database.h"
#include "templates/sources.h"

namespace tilewright::autotune {

/// A plan with everything that a record says of it.
struct StoredPlan {
  const Template* kernelTemplate = nullptr;
  Configuration configuration;
  std::vector<BuildRequest> requests;
  std::vector<std::shared_ptr<const Binary>> binaries;  ///< by request; empty when it was not built
};

class TuningStore {
 public:
  /// Everything must outlive the store.
  TuningStore(Database& database, const DeviceInfo& device, std::span<const Template* const> templates,
              const SourceCatalog& sources, const Builder& builder)
      : database_(database), device_(device), templates_(templates), sources_(sources), builder_(builder) {}

  /// Whether a sweep with the present templates finished the problem at this effort or above, in this process or
  /// another.
  Result<bool> isDone(const Problem& problem, Effort effort) const;

  /// Refusals of plans of this problem, by template id, configuration and build keys (see planKey).
  Result<std::map<std::string, Refusal>> refusals(const Problem& problem) const;
  std::string planKey(const StoredPlan& plan) const;

  /// Commits the winner with its binaries at once and marks the problem done unless the race was cut short.
  Result<void> commit(const Problem& problem, const StoredPlan& plan, const WinnerReport& report, double runnerUp,
                      Effort effort);
  /// Records plans that were measured without winning, or refused.
  struct Loser {
    StoredPlan plan;
    RecordStatus status = RecordStatus::kOk;
    std::string reason;     ///< "constraint: sentence" unless the status is kOk
    Statistics statistics;  ///< of kOk
    double error = 0;
    std::optional<double> outlierError;
    std::optional<Preparation> preparation;
  };
  Result<void> addLosers(const Problem& problem, std::span<const Loser> losers);

  /// Stores the binaries of a template's default, which every export keeps: what runs where nothing was tuned.
  Result<void> addDefaults(const StoredPlan& plan);
  Result<void> addBuilds(const StoredPlan& plan);

 private:
  std::string policy(const Problem& problem, Effort effort) const;
  Record recordOf(const Problem& problem, const StoredPlan& plan) const;
  std::vector<StoredBuild> buildsOf(const StoredPlan& plan) const;

  Database& database_;
  const DeviceInfo& device_;
  std::span<const Template* const> templates_;
  const SourceCatalog& sources_;
  const Builder& builder_;
};

}  // namespace tilewright::autotune
