// Tunes one problem: candidates, binaries, verification, race, winner, commit.
//
//   space -> remembered refusals -> builds -> resource refusals -> verify each (in the worker) -> race -> neighbours of
//   the winner race it again -> verify the winner once more -> commit
//
// Every step may refuse a candidate with a reason, and none may cost more than the candidate. The budget can end
// between any two steps: before the finals had a round the problem remains, after that the best so far is committed.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "autotune/measurer.h"
#include "autotune/outcome.h"
#include "autotune/race_plan.h"
#include "autotune/search_space.h"
#include "autotune/tuning_store.h"

namespace tilewright::autotune {

/// What the tuner of one problem shares with the sweep around it.
struct TunerContext {
  const DeviceInfo& device;
  std::span<const Template* const> templates;
  const SourceCatalog& sources;
  Builder& builder;
  Measurer& measurer;
  TuningStore& store;

  Effort effort = Effort::kNormal;
  std::uint64_t seed = 1;
  bool force = false;                ///< forget remembered refusals
  double candidateSeconds = 10;      ///< what a candidate may take beyond twenty runs of the default
  double overheadSeconds = 0;        ///< flush of the cache per run, as measured so far
  double openSecondsPerByte = 5e-9;  ///< operands and references, as measured so far
  double buildSeconds = 0.3;         ///< of one build on all cores, as measured so far

  /// Until the budget ends; negative after it.
  std::function<double()> secondsLeft;
  /// Somebody wants the sweep to end now.
  std::function<bool()> stopRequested;
  /// "compiling", "verifying", "racing", ... and how far it is. May be empty.
  std::function<void(std::string_view stage, int done, int of)> progress;

  bool mustStop() const { return stopRequested() || secondsLeft() <= 0; }
  std::string_view stopReason() const { return stopRequested() ? "the sweep was stopped" : "the budget ended"; }
};

/// The result of tuning a problem that the store does not know. An error is the sweep's end: no worker can be started,
/// or the database cannot be written.
Result<ProblemOutcome> tuneProblem(TunerContext& context, const ListedProblem& listed, double expectedRunSeconds);

/// Bytes of a problem's operands on the device, and whether they fit beside a workspace; a sentence if not.
std::optional<std::string> doesNotFit(const Problem& problem, const DeviceInfo& device);

}  // namespace tilewright::autotune
