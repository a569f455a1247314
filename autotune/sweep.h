// Tunes a list of problems within a budget, and keeps every winner the moment it is known.
//
// Problems that the database knows (see tuning_store.h) are skipped, the others go in the schedule's order until the
// budget ends; what is left is listed with its reason, and the next sweep goes on there. The process may be killed at
// any moment: each winner is one transaction.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autotune/outcome.h"
#include "autotune/race_plan.h"
#include "base/build_request.h"
#include "base/device_info.h"
#include "cache/database.h"
#include "format/problem_json.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright::autotune {

struct SweepInput {
  DeviceInfo device;
  std::vector<ListedProblem> problems;
  std::span<const Template* const> templates;
  const SourceCatalog* sources = nullptr;
  std::vector<const Compiler*> compilers;
  Database* database = nullptr;
  std::vector<std::string> workerCommand;  ///< see worker.h; not used by compileOnly
  std::string workerDevice;                ///< "cpu", "cuda:0"
};

struct SweepOptions {
  double budgetSeconds = 60;
  int jobs = 1;        ///< compile threads
  bool force = false;  ///< tune what is done, forget refusals
  Effort effort = Effort::kNormal;
  std::uint64_t seed = 1;
  double candidateSeconds = 10;  ///< limit of a candidate, beyond twenty runs of the default
};

struct SweepProgress {
  int finished = 0;  ///< problems, skipped ones included
  int total = 0;
  int winners = 0;
  const Problem* current = nullptr;
  std::string_view stage;  ///< "compiling", "verifying", "racing"
  int stageDone = 0, stageOf = 0;
  double elapsedSeconds = 0;
  double etaSeconds = 0;  ///< of what still fits the budget
};

struct SweepReport {
  std::vector<ProblemOutcome> outcomes;  ///< in the order in which they ended; what remains last
  bool wasStopped = false;
  double seconds = 0;
  int workerStarts = 0;
  int builds = 0;
  std::optional<Error> error;  ///< ended the sweep early; the outcomes before it are in the database

  int count(ProblemStatus status) const;
};

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  /// Asked about 10 times a second while something runs.
  virtual bool stopRequested() { return false; }
  virtual void progress(const SweepProgress& progress) {}
  virtual void ended(const ProblemOutcome& outcome) {}
};

/// Runs until the list, the budget or the observer's patience ends.
SweepReport sweep(const SweepInput& input, const SweepOptions& options, SweepObserver& observer);

/// Fills the database with the binaries of every candidate, without a device. Outcomes have no winner.
SweepReport compileOnly(const SweepInput& input, const SweepOptions& options, SweepObserver& observer);

/// The list without repetitions, which add up their counts.
std::vector<ListedProblem> withoutRepetitions(std::span<const ListedProblem> problems);

}  // namespace tilewright::autotune
