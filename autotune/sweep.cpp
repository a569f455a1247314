#include "autotune/sweep.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "autotune/builder.h"
#include "autotune/measurer.h"
#include "autotune/problem_tuner.h"
#include "autotune/schedule.h"
#include "autotune/search_space.h"
#include "autotune/tuning_store.h"

namespace tilewright::autotune {
namespace {

using Clock = std::chrono::steady_clock;

// The cost model is what chose the default, so its promise of a gain is modest; measured gains are not.
constexpr double kLeastGain = 0.05;

// A race is given so many even shares of what is left, for many problems take less, and at least so many seconds.
constexpr double kShares = 3;
constexpr double kLeastRaceSeconds = 1;
constexpr double kPostpone = 3;  // a race that takes so many times its share is put off until the others are done

// Sizes that cover the defaults which templates choose by size: decoding, small batches, prefill.
constexpr std::int64_t kLadder[] = {1, 8, 32, 128, 512, 4096};

std::optional<Binary> findBuild(Database& database, const std::string& key) {
  Result<Binary> found = database.findByBuild(key);
  return found ? std::optional(std::move(*found)) : std::nullopt;
}

class Sweep {
 public:
  Sweep(const SweepInput& input, const SweepOptions& options, SweepObserver& observer)
      : input_(input),
        options_(options),
        observer_(observer),
        builder_(input.compilers, options.jobs,
                 [this](const std::string& key) { return findBuild(*input_.database, key); }),
        store_(*input.database, input.device, input.templates, *input.sources, builder_),
        measurer_({.command = input.workerCommand, .device = input.workerDevice},
                  [this] { return context_.mustStop(); }),
        context_{.device = input.device,
                 .templates = input.templates,
                 .sources = *input.sources,
                 .builder = builder_,
                 .measurer = measurer_,
                 .store = store_,
                 .effort = options.effort,
                 .seed = options.seed,
                 .force = options.force,
                 .candidateSeconds = options.candidateSeconds} {
    // Writing the cache over, until the first block of runs tells better.
    context_.overheadSeconds =
        2.0 * static_cast<double>(input.device.l2Bytes) / std::max(input.device.memoryBytesPerSecond, 1e9);
    context_.secondsLeft = [this] { return options_.budgetSeconds - elapsed(); };
    context_.stopRequested = [this] { return wasStopped_ = wasStopped_ || observer_.stopRequested(); };
    context_.progress = [this](std::string_view stage, int done, int of) {
      progress_.stage = stage, progress_.stageDone = done, progress_.stageOf = of;
      tell();
    };
  }

  SweepReport measureAll() {
    const Result<void> result = tuneList();
    return finish(result);
  }

  SweepReport compileAll() {
    const Result<void> result = compileList();
    return finish(result);
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void tell() {
    progress_.elapsedSeconds = elapsed();
    observer_.progress(progress_);
  }

  void keep(ProblemOutcome outcome) {
    ++progress_.finished;
    progress_.winners += outcome.winner.has_value();
    observer_.ended(outcome);
    report_.outcomes.push_back(std::move(outcome));
  }

  std::string reasonsFor(const Problem& problem) const {
    return refusalReasons(problem, input_.device, input_.templates);
  }

  SweepReport finish(const Result<void>& result) {
    if (!result) report_.error = result.error();
    report_.wasStopped = wasStopped_;
    report_.seconds = elapsed();
    report_.workerStarts = measurer_.starts();
    report_.builds = builder_.compiled();
    return std::move(report_);
  }

  Result<void> tuneList() {
    TW_TRY(input_.database->addDevice(input_.device));
    Schedule schedule = TW_TRY(makeSchedule());
    // A device that cannot be opened ends the sweep before anything is compiled for it.
    if (!schedule.empty()) TW_TRY(measurer_.start());
    submitDefaults();

    while (!context_.mustStop()) {
      shareBudget(schedule);
      std::optional<ScheduledProblem> next = schedule.take(context_.secondsLeft());
      if (!next) break;
      progress_.current = &next->problem;
      progress_.etaSeconds =
          std::min(schedule.remainingSeconds() + schedule.costSeconds(*next), context_.secondsLeft());
      const auto started = Clock::now();
      const ListedProblem listed{next->problem, next->count, next->use};
      if (!options_.force && TW_TRY(store_.isDone(next->problem, options_.effort))) {
        keep({.listed = listed, .status = ProblemStatus::kAlreadyDone});
        continue;
      }
      if (input_.device.kind == DeviceKind::kCuda) compileAhead(schedule);
      const bool mayPostpone = next->measuredSeconds == 0 && !schedule.empty();
      context_.postponeSeconds = mayPostpone ? kPostpone * context_.problemSeconds : 0;
      const Result<ProblemOutcome> outcome = tuneProblem(context_, listed, schedule.runSeconds(*next));
      if (!outcome) {
        keep({.listed = listed, .status = ProblemStatus::kFailed, .reason = outcome.error().message});
        leave(schedule, "the sweep ended with an error");
        return std::unexpected(outcome.error());
      }
      schedule.spent(next->problem, std::chrono::duration<double>(Clock::now() - started).count());
      const bool hasDefault = outcome->winner && outcome->winner->defaultStatistics;
      const double measured =
          hasDefault ? outcome->winner->defaultStatistics->median : outcome->defaultRunSeconds * 1e6;
      schedule.calibration().add(next->defaultTemplate, next->defaultMicroseconds, measured);
      if (outcome->isPostponed) {
        schedule.postpone(std::move(*next), outcome->defaultRunSeconds);
        continue;
      }
      keep(*outcome);
    }
    progress_.current = nullptr;
    leave(schedule, "");
    return storeDefaults();
  }

  /// A long list makes each problem's race shorter (down to a second) rather than leaving most of them untuned: between
  /// two tuned problems the dispatcher trusts what won at both.
  void shareBudget(Schedule& schedule) {
    const double share = context_.secondsLeft() / std::max<double>(1, static_cast<double>(schedule.open().size()));
    context_.problemSeconds = std::max(kLeastRaceSeconds, kShares * share);
    schedule.setCheap(2 * context_.problemSeconds);
  }

  /// What is open remains, each with its reason.
  void leave(const Schedule& schedule, std::string_view reason) {
    const bool stopped = context_.stopRequested();
    for (const ScheduledProblem& each : schedule.open()) {
      std::string why(reason);
      if (why.empty() && stopped) why = "the sweep was stopped";
      if (why.empty() && schedule.costSeconds(each) > options_.budgetSeconds) {
        why = fmt::format("predicted to need more than the whole budget of {:.0f} s", options_.budgetSeconds);
      }
      if (why.empty()) why = "the budget ended";
      keep({.listed = {each.problem, each.count, each.use},
            .status = ProblemStatus::kRemains,
            .reason = std::move(why)});
    }
  }

  /// Sorts out what is done or impossible; predicts the rest.
  Result<Schedule> makeSchedule() {
    std::vector<ScheduledProblem> open;
    const std::vector<ListedProblem> problems = withoutRepetitions(input_.problems);
    progress_.total = static_cast<int>(problems.size());
    for (const ListedProblem& listed : problems) {
      const Template* chosen = defaultTemplate(listed.problem, input_.device, input_.templates);
      if (chosen == nullptr) {
        keep({.listed = listed, .status = ProblemStatus::kUnsupported, .reason = reasonsFor(listed.problem)});
        continue;
      }
      if (!options_.force && TW_TRY(store_.isDone(listed.problem, options_.effort))) {
        keep({.listed = listed, .status = ProblemStatus::kAlreadyDone});
        continue;
      }
      ScheduledProblem problem{.problem = listed.problem, .count = listed.count, .use = listed.use};
      problem.defaultTemplate = chosen->id();
      problem.defaultMicroseconds = chosen->predictMicroseconds(
          listed.problem, input_.device, chosen->defaultConfiguration(listed.problem, input_.device));
      problem.expectedGain = expectedGain(listed.problem, problem.defaultMicroseconds);
      open.push_back(std::move(problem));
    }
    return Schedule(std::move(open),
                    [this](const ScheduledProblem& problem, double runSeconds) { return costOf(problem, runSeconds); });
  }

  double expectedGain(const Problem& problem, double defaultMicroseconds) const {
    double best = defaultMicroseconds;
    const auto space = buildSearchSpace(problem, input_.device, input_.templates, {.cap = 8});
    if (space) {
      for (const Candidate& each : space->candidates) best = std::min(best, each.predictedMicroseconds);
    }
    return defaultMicroseconds > 0 ? std::max(kLeastGain, 1 - best / defaultMicroseconds) : kLeastGain;
  }

  double costOf(const ScheduledProblem& problem, double runSeconds) const {
    const RacePlan plan = planRace(problem.problem, input_.device, options_.effort, runSeconds,
                                   context_.overheadSeconds, options_.budgetSeconds);
    return 0.2 + bytes(problem.problem) * context_.openSecondsPerByte +
           plan.seconds(runSeconds, context_.overheadSeconds);
  }

  /// Queues the builds of the problem that will probably be next.
  void compileAhead(const Schedule& schedule) {
    const ScheduledProblem* next = schedule.peek(context_.secondsLeft());
    if (next == nullptr) return;
    const RacePlan plan = planRace(next->problem, input_.device, options_.effort, schedule.runSeconds(*next),
                                   context_.overheadSeconds, context_.secondsLeft());
    const auto space =
        buildSearchSpace(next->problem, input_.device, input_.templates, {.cap = plan.cap, .seed = options_.seed});
    if (!space) return;
    for (const Candidate& each : space->candidates)
      submit(next->problem, *each.kernelTemplate, each.configuration, false);
  }

  StoredPlan submit(const Problem& problem, const Template& kernelTemplate, const Configuration& configuration,
                    bool urgent) {
    StoredPlan plan{.kernelTemplate = &kernelTemplate, .configuration = configuration};
    plan.requests = kernelTemplate.buildRequests(problem, input_.device, configuration, *input_.sources);
    for (const BuildRequest& request : plan.requests) builder_.submit(request, urgent);
    return plan;
  }

  /// The binaries of a submitted plan; none when it cannot be built, its build is refused, or the sweep must stop
  /// first.
  bool collect(StoredPlan& plan, Refusal& refusal, const std::function<bool()>& stop) {
    for (const BuildRequest& request : plan.requests) {
      const auto outcome = builder_.wait(builder_.keyOf(request), stop);
      if (!outcome) {
        refusal = {"stopped", std::string(context_.stopReason())};
        return false;
      }
      if (!*outcome) {
        refusal = {"build", outcome->error().message};
        return false;
      }
      if (auto refused = refusesBinary(*plan.kernelTemplate, ***outcome)) {
        refusal = std::move(*refused);
        return false;
      }
      plan.binaries.push_back(**outcome);
    }
    return true;
  }

  /// Queues the defaults of every template over a ladder of sizes of the listed problems: what runs where nothing was
  /// tuned. The CPU has none without its compiler, and with it needs none.
  void submitDefaults() {
    if (input_.device.kind == DeviceKind::kCpu) return;
    for (const ListedProblem& listed : withoutRepetitions(input_.problems)) {
      for (const std::int64_t size : kLadder) {
        Problem problem = listed.problem;
        (problem.isLinear() ? problem.linear.m : problem.attention.qLen) = size;
        for (const Template* each : input_.templates) {
          if (each->operation() != problem.operation || each->refuses(problem, input_.device)) continue;
          const Configuration defaults = each->defaultConfiguration(problem, input_.device);
          StoredPlan plan{.kernelTemplate = each, .configuration = defaults};
          plan.requests = each->buildRequests(problem, input_.device, defaults, *input_.sources);
          std::string name(each->id());
          for (const BuildRequest& request : plan.requests) name += " " + describeParameters(request);
          defaults_.try_emplace(std::move(name), std::move(plan));
        }
      }
    }
    for (auto& [name, plan] : defaults_) {
      for (const BuildRequest& request : plan.requests) builder_.submit(request, false);
    }
  }

  /// Stores them. They were compiled beside everything else, so that a budget that has ended waits for few, if any.
  Result<void> storeDefaults() {
    for (auto& [name, plan] : defaults_) {
      for (const BuildRequest& request : plan.requests) builder_.submit(request, true);
    }
    Refusal refusal;
    for (auto& [name, plan] : defaults_) {
      if (collect(plan, refusal, context_.stopRequested)) TW_TRY(store_.addDefaults(plan));
    }
    return {};
  }

  // --- Without a device ---

  Result<void> compileList() {
    const std::vector<ListedProblem> problems = withoutRepetitions(input_.problems);
    progress_.total = static_cast<int>(problems.size());
    std::set<std::string> stored;
    submitDefaults();
    for (const ListedProblem& listed : problems) {
      ProblemOutcome outcome{.listed = listed, .status = ProblemStatus::kRemains};
      progress_.current = &listed.problem;
      if (context_.mustStop()) {
        outcome.reason = context_.stopReason();
      } else {
        TW_TRY(compileProblem(listed.problem, outcome, stored));
      }
      keep(std::move(outcome));
    }
    progress_.current = nullptr;
    return storeDefaults();
  }

  Result<void> compileProblem(const Problem& problem, ProblemOutcome& outcome, std::set<std::string>& stored) {
    const auto started = Clock::now();
    const RacePlan race = planRace(problem, input_.device, options_.effort, 0, 0, options_.budgetSeconds);
    const auto space =
        buildSearchSpace(problem, input_.device, input_.templates, {.cap = race.cap, .seed = options_.seed});
    if (!space) {
      outcome.status = ProblemStatus::kUnsupported;
      outcome.reason = reasonsFor(problem);
      return {};
    }
    std::vector<StoredPlan> plans;
    for (const Candidate& each : space->candidates) {
      plans.push_back(submit(problem, *each.kernelTemplate, each.configuration, true));
    }
    outcome.status = ProblemStatus::kCompiled;
    for (StoredPlan& plan : plans) {
      context_.progress("compiling", static_cast<int>(&plan - plans.data()), static_cast<int>(plans.size()));
      Refusal refusal;
      if (collect(plan, refusal, [this] { return context_.mustStop(); })) {
        if (!stored.insert(store_.planKey(plan)).second) continue;
        TW_TRY(store_.addBuilds(plan));
        outcome.builds += static_cast<int>(plan.binaries.size());
      } else if (context_.mustStop()) {
        outcome.status = ProblemStatus::kRemains;
        outcome.reason = std::move(refusal.reason);
        break;
      } else {
        outcome.refused.push_back({std::string(plan.kernelTemplate->id()), plan.configuration, std::move(refusal)});
      }
    }
    outcome.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    return {};
  }

  const SweepInput& input_;
  const SweepOptions& options_;
  SweepObserver& observer_;
  Clock::time_point start_ = Clock::now();
  bool wasStopped_ = false;
  SweepReport report_;
  SweepProgress progress_;
  Builder builder_;
  TuningStore store_;
  Measurer measurer_;
  TunerContext context_;
  std::map<std::string, StoredPlan> defaults_;
};

}  // namespace

int SweepReport::count(ProblemStatus status) const {
  return static_cast<int>(std::ranges::count(outcomes, status, &ProblemOutcome::status));
}

std::vector<ListedProblem> withoutRepetitions(std::span<const ListedProblem> problems) {
  std::vector<ListedProblem> unique;
  std::map<PackedProblem, std::size_t> places;
  for (const ListedProblem& each : problems) {
    const auto [place, isNew] = places.try_emplace(pack(each.problem), unique.size());
    if (isNew) {
      unique.push_back(each);
    } else {
      unique[place->second].count += each.count;
    }
  }
  return unique;
}

SweepReport sweep(const SweepInput& input, const SweepOptions& options, SweepObserver& observer) {
  return Sweep(input, options, observer).measureAll();
}

SweepReport compileOnly(const SweepInput& input, const SweepOptions& options, SweepObserver& observer) {
  return Sweep(input, options, observer).compileAll();
}

}  // namespace tilewright::autotune
