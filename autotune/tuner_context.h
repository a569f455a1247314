// What the tuner of one problem shares with the sweep around it: the device, the tools, the budget, and what was
// learned so far about the cost of things.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "autotune/builder.h"
#include "autotune/measurer.h"
#include "autotune/race_plan.h"
#include "autotune/tuning_store.h"
#include "templates/template.h"

namespace tilewright::autotune {

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
  double problemSeconds = 5;         ///< what the race of a problem may take, if the effort does not ask for less
  double postponeSeconds = 0;        ///< a race that turns out to take longer is put off; 0: none is
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

  void tell(std::string_view stage, int done, int of) const {
    if (progress) progress(stage, done, of);
  }
  bool mustStop() const { return stopRequested() || secondsLeft() <= 0; }
  std::string_view stopReason() const { return stopRequested() ? "the sweep was stopped" : "the budget ended"; }
};

}  // namespace tilewright::autotune
