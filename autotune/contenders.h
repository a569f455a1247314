// The candidates of one problem on their way to the race: built, checked for resources, run once and verified. Each
// step may take a candidate out with a reason, which is recorded with the plan's build keys and remembered by the next
// sweep.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotune/race.h"
#include "autotune/search_space.h"
#include "autotune/tuner_context.h"

namespace tilewright::autotune {

struct Contender {
  Candidate candidate;
  bool isDefault = false;  ///< the plan that runs when nothing was tuned
  StoredPlan plan;
  std::vector<std::string> keys;  ///< of its builds, once they are submitted

  bool isAlive = true;      ///< neither refused nor left out
  bool isPrepared = false;  ///< verified, and loaded in the worker
  RecordStatus status = RecordStatus::kOk;
  Refusal refusal;            ///< empty unless it was refused
  bool isRemembered = false;  ///< refused by an earlier sweep
  bool isRecorded = true;     ///< the refusal is the plan's own fault and worth remembering

  Verification verification;
  RaceEntry entry;

  void refuse(RecordStatus why, std::string constraint, std::string reason);
};

class Contenders {
 public:
  Contenders(TunerContext& context, const Problem& problem) : context_(context), problem_(problem) {}

  /// Appends candidates, of which one may be the default (-1: none), without those that an earlier sweep refused.
  Result<void> add(const std::vector<Candidate>& candidates, int defaultCandidate);
  bool contains(const Candidate& candidate) const;

  /// Binaries of every contender that lacks them; false if the sweep must stop first.
  bool build();
  /// Keeps the binaries of templates' defaults, so that exports are closed.
  Result<void> storeDefaults();
  /// Runs a contender once in the worker and verifies it. An error is the sweep's end: no worker can be had at all.
  Result<void> prepare(int index, double limit);
  /// The verdict on an error of the measurer: what to remember of the plan.
  void judge(Contender& contender, const Error& error);

  int size() const { return static_cast<int>(all_.size()); }
  Contender& operator[](int index) { return all_[index]; }
  const Contender& operator[](int index) const { return all_[index]; }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  /// The default first, then by predicted time; without those that are out.
  std::vector<int> aliveInProbeOrder() const;

  /// What was refused, for the report, and what lost or was refused here, for the database.
  std::vector<RefusedPlan> refused() const;
  std::vector<TuningStore::Loser> losers(int winner) const;
  /// Builds that were compiled, not found.
  int builds() const { return builds_; }

 private:
  Result<void> skipRemembered(std::size_t first);

  TunerContext& context_;
  const Problem& problem_;
  std::vector<Contender> all_;
  std::optional<std::map<std::string, Refusal>> remembered_;
  int builds_ = 0;
};

}  // namespace tilewright::autotune
