// Chooses what runs: the winners of this device, read from the database layers once, and an honest way to use them.
//
// For a problem, in this order:
//   exact     a winner measured for it, upper layers first
//   nearest   between the nearest measured problems below and above (same operation, dtypes and fixed dimensions;
//             other m, or other q_len and kv_len), if one configuration won at all of them
//             and beat the default there
//   relaxed   the same for a problem that promises less or computes more exactly (alignment any;
//             precision exact, or any precision for `fast`), if its measured time beats
//             the default of the asked one
//   unprepared  the same, once more, for a problem with prepared weights: a winner of the problem without, whose time
//             has the preparation in it, and so has that of the default beside it
//   default   templates by cost model, each with its default configuration
// A winner that its template refuses, that no template of this program knows, or that is slower than the default beside
// it is passed over with a warning: the dispatcher makes nobody slower than the default.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/device_info.h"
#include "cache/layers.h"
#include "runtime/problem_table.h"
#include "runtime/selection.h"

namespace tilewright {

/// A winner that may run.
struct TunedPlan {
  Problem problem;
  const Template* kernelTemplate = nullptr;
  Configuration configuration;
  int layer = 0;
  Margin margin;

  /// Faster than the default by measurement; a winner that is the default does not beat it.
  bool beatsDefault() const {
    return margin.defaultMicroseconds > 0 && margin.medianMicroseconds < margin.defaultMicroseconds;
  }
};

/// The plan for a problem that nobody tuned: the templates that do not refuse it, by predicted time, each with its
/// default configuration; `refused`, if given, receives the others. The tuner measures the first as "the default".
std::vector<Candidate> defaultCandidates(const Problem& problem, const DeviceInfo& device,
                                         std::span<const Template* const> templates = allTemplates(),
                                         std::vector<RefusedCandidate>* refused = nullptr);

/// Immutable once made; safe to use from several threads.
class Dispatcher {
 public:
  Dispatcher(const DeviceInfo& device, const DatabaseLayers& layers,
             std::span<const Template* const> templates = allTemplates());
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// The winner measured for exactly this problem, or null. No SQL, no allocation, no lock.
  const TunedPlan* find(const PackedProblem& problem) const noexcept { return table_.find(problem); }
  const TunedPlan* find(const Problem& problem) const noexcept { return find(pack(problem)); }

  /// Everything that could run a valid problem, best first, and what refused the rest.
  Selection select(const Problem& problem) const;

  std::size_t winnerCount() const { return plans_.size(); }
  /// What was passed over when the layers were read.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Skipped {
    PackedProblem problem;
    RefusedCandidate candidate;
  };

  void add(const DatabaseLayers::LayeredWinner& winner);
  const TunedPlan* exact(const Problem& problem) const { return table_.find(pack(problem)); }
  std::optional<Candidate> nearest(const Problem& problem, std::vector<std::string>& notes) const;
  std::optional<Candidate> bestOf(const std::vector<Problem>& problems, bool exactly,
                                  std::vector<std::string>& notes) const;
  double defaultMicroseconds(std::span<const Problem> related, const Candidate& standard) const;
  void addRelated(const std::vector<Problem>& related, const Candidate* standard, Selection& selection) const;
  void addMeasuredElsewhere(Selection& selection) const;
  bool accepts(const Candidate& candidate) const;

  DeviceInfo device_;
  std::span<const Template* const> templates_;
  std::deque<TunedPlan> plans_;  // Stable addresses for the table.
  ProblemTable<const TunedPlan> table_;
  std::map<PackedProblem, std::vector<const TunedPlan*>> groups_;  // By problem without its free dimensions.
  std::vector<Skipped> skipped_;
  std::vector<std::string> warnings_;
};

}  // namespace tilewright
