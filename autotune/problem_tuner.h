// Tunes one problem: candidates, binaries, verification, race, winner, commit.
//
//   space -> remembered refusals -> builds -> resource refusals -> verify each (in the worker) -> race -> neighbours of
//   the winner race it again -> verify the winner once more -> commit
//
// Every step may refuse a candidate with a reason, and none may cost more than the candidate. The budget can end
// between any two steps: before the finals had a round the problem remains, after that the best so far is committed.
#pragma once

#include <optional>
#include <string>

#include "autotune/outcome.h"
#include "autotune/tuner_context.h"

namespace tilewright::autotune {

/// The result of tuning a problem that the store does not know. An error is the sweep's end: no worker can be started,
/// or the database cannot be written.
Result<ProblemOutcome> tuneProblem(TunerContext& context, const ListedProblem& listed, double expectedRunSeconds);

/// Why a problem's operands leave no room for a workspace in the device's memory; nothing if they fit.
std::optional<std::string> doesNotFit(const Problem& problem, const DeviceInfo& device);

}  // namespace tilewright::autotune
