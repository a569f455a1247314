// What a sweep reports of each problem, for tables, listings and tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/statistics.h"
#include "autotune/verification.h"
#include "base/result.h"
#include "format/problem_json.h"
#include "templates/template.h"

namespace tilewright::autotune {

struct WinnerReport {
  std::string templateId;
  Configuration configuration;
  bool isDefault = false;
  Statistics statistics;
  std::optional<Statistics> defaultStatistics;  ///< none if the default plan could not run
  double error = 0;                             ///< normalized RMS against double precision
  std::optional<double> outlierError;           ///< of lossy plans, with outlier channels
  std::optional<Preparation> preparation;       ///< of problems with prepared weights, if the plan has one
  int measured = 0;                             ///< candidates with a time
  int tied = 0;                                 ///< others that cannot be told apart from the winner
  bool complete = true;                         ///< false if the budget cut the finals short

  /// Of the default's time over the winner's; 1 when the default wins or could not run.
  double speedUp() const { return isDefault || !defaultStatistics ? 1 : defaultStatistics->median / statistics.median; }
};

/// A configuration that was built or run and may not win.
struct RefusedPlan {
  std::string templateId;
  Configuration configuration;
  Refusal refusal;          ///< "build", "no_spills", "wrong_result", "crashed", "timeout"
  bool remembered = false;  ///< by an earlier sweep: neither built nor run in this one
};

enum class ProblemStatus {
  kTuned,        ///< a winner is in the database
  kCompiled,     ///< without a device: the candidates' binaries are in the database
  kAlreadyDone,  ///< by an earlier sweep with the same templates, at this effort or above
  kRemains,      ///< the budget, the machine's memory or a wish to stop left it; `reason` says which
  kUnsupported,  ///< no template computes it on this device
  kFailed,       ///< no candidate survived
};

struct ProblemOutcome {
  ListedProblem listed;
  ProblemStatus status = ProblemStatus::kRemains;
  std::string reason;
  std::optional<WinnerReport> winner;
  std::vector<RefusedPlan> refused;
  double defaultRunSeconds = 0;  ///< of the default's first run; 0 if it did not run
  bool isPostponed = false;      ///< kRemains because its race would take longer than the schedule thought
  int builds = 0;                ///< binaries stored
  double seconds = 0;
};

}  // namespace tilewright::autotune
