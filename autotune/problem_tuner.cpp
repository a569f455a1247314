#include "autotune/problem_tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "autotune/contenders.h"
#include "autotune/search_space.h"

namespace tilewright::autotune {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A first run that took this many times the fastest first run's time, and is no matter of microseconds, ends a
// candidate.
constexpr double kHopelessFirstRun = 4;
constexpr double kFirstRunMattersMicroseconds = 20e3;
constexpr double kRunsUntilHung = 20;

class ProblemTuner : private Runner {
 public:
  ProblemTuner(TunerContext& context, const ListedProblem& listed, double expectedRunSeconds)
      : context_(context), problem_(listed.problem), runSeconds_(expectedRunSeconds), contenders_(context, problem_) {
    outcome_.listed = listed;
  }

  Result<ProblemOutcome> tune() {
    const auto start = Clock::now();
    TW_TRY(run());
    report();
    outcome_.builds = contenders_.builds();
    outcome_.seconds = secondsSince(start);
    return std::move(outcome_);
  }

 private:
  Result<void> run() {
    RacePlan plan =
        planRace(problem_, context_.device, context_.effort, runSeconds_, context_.overheadSeconds, raceSeconds());
    // Compilation must not eat the time of the race.
    const double affordable = context_.secondsLeft() / 3 / std::max(context_.buildSeconds, 1e-3);
    if (affordable < plan.cap) plan.cap = std::max(static_cast<int>(affordable), std::min(plan.cap, 4));
    Result<SearchSpace> space =
        buildSearchSpace(problem_, context_.device, context_.templates, {.cap = plan.cap, .seed = context_.seed});
    if (!space) return end(ProblemStatus::kUnsupported, refusalReasons(problem_, context_.device, context_.templates));
    TW_TRY(contenders_.add(space->candidates, space->defaultCandidate));
    if (!contenders_.build()) return remains();
    TW_TRY(contenders_.storeDefaults());

    if (const auto reason = doesNotFit(problem_, context_.device)) return end(ProblemStatus::kRemains, *reason);
    if (!TW_TRY(open())) return {};
    if (!TW_TRY(prepareAll(plan))) return {};
    if (!TW_TRY(raceAll(plan))) return {};
    for (int i = 0; i < plan.refinements && !context_.mustStop(); ++i) {
      if (!TW_TRY(refine(plan))) break;
    }
    return commit();
  }

  Result<void> end(ProblemStatus status, std::string reason) {
    outcome_.status = status;
    outcome_.reason = std::move(reason);
    return {};
  }
  Result<void> remains() { return end(ProblemStatus::kRemains, std::string(context_.stopReason())); }

  /// Whether an error of the measurer is the sweep's end rather than the plan's: no worker can be had at all.
  Result<void> workerOrError() {
    if (context_.mustStop()) return {};
    return context_.measurer.start();
  }

  double raceSeconds() const { return std::min(context_.problemSeconds, left()); }
  double left() const { return std::max(context_.secondsLeft(), 0.1); }

  /// False if the problem ended here.
  Result<bool> open() {
    context_.tell("preparing", 0, 1);
    TW_TRY(workerOrError());
    const auto start = Clock::now();
    const double limit = std::min(60 + bytes(problem_) * 1e-7, left() + 1);
    const Result<void> opened = context_.measurer.open(problem_, {.seed = context_.seed}, limit);
    const double seconds = secondsSince(start);
    openSeconds_ = seconds;
    if (opened) {
      const double perByte = seconds / std::max(bytes(problem_), 1e6);
      context_.openSecondsPerByte = (context_.openSecondsPerByte + perByte) / 2;
      return true;
    }
    if (context_.mustStop()) {
      TW_TRY(remains());
    } else {
      TW_TRY(end(opened.error().code == ErrorCode::kOutOfMemory ? ProblemStatus::kRemains : ProblemStatus::kFailed,
                 opened.error().message));
      TW_TRY(workerOrError());
    }
    return false;
  }

  /// Seconds for one verified run.
  double candidateLimit(const Contender& contender) const {
    double limit = context_.candidateSeconds + kRunsUntilHung * runSeconds_;
    // Lossy plans are checked on a second set of operands, which the first of them makes.
    const Template& kernelTemplate = *contender.plan.kernelTemplate;
    if (kernelTemplate.precision(problem_, contender.plan.configuration) != Precision::kExact)
      limit += 2 * openSeconds_;
    return std::min(limit, left());
  }

  /// Verifies the default, plans the race by its real speed, verifies the others. False if the problem ended here.
  Result<bool> prepareAll(RacePlan& plan) {
    const std::vector<int> order = contenders_.aliveInProbeOrder();
    double fastest = INFINITY;
    int done = 0;
    for (const int index : order) {
      Contender& contender = contenders_[index];
      if (context_.mustStop()) return stopHere();
      if (contender.isPrepared) continue;
      context_.tell("verifying", done, static_cast<int>(order.size()));
      if (done >= plan.cap) {
        dropUntried(contender);
        continue;
      }
      TW_TRY(contenders_.prepare(index, candidateLimit(contender)));
      ++done;
      if (!contender.isAlive) continue;
      const double first = contender.verification.microseconds;
      if (contender.isDefault) {
        runSeconds_ = first * 1e-6;
        plan =
            planRace(problem_, context_.device, context_.effort, runSeconds_, context_.overheadSeconds, raceSeconds());
        outcome_.defaultRunSeconds = runSeconds_;
        if (const double needed = plan.seconds(runSeconds_, context_.overheadSeconds);
            context_.postponeSeconds > 0 && needed > context_.postponeSeconds) {
          outcome_.isPostponed = true;
          TW_TRY(end(ProblemStatus::kRemains, fmt::format("its race needs {:.0f} s", needed)));
          return false;
        }
        if (plan.seconds(runSeconds_, context_.overheadSeconds) > left() && runSeconds_ > 0.5) {
          TW_TRY(end(ProblemStatus::kRemains,
                     fmt::format("a run takes {:.1f} s, the race at least {:.0f} s, {:.0f} s of the budget are left",
                                 runSeconds_, plan.seconds(runSeconds_, context_.overheadSeconds), left())));
          return false;
        }
      } else if (first > kFirstRunMattersMicroseconds && first > kHopelessFirstRun * fastest) {
        dropAfterFirstRun(index);
      }
      fastest = std::min(fastest, first);
    }
    if (context_.mustStop()) return stopHere();
    admit(plan.entrants);
    return true;
  }

  /// Drops all but the default and those whose first runs were the fastest.
  void admit(int entrants) {
    std::vector<int> others;
    for (int i = 0; i < contenders_.size(); ++i) {
      const Contender& each = contenders_[i];
      if (each.isAlive && !each.isDefault && each.entry.standing != Standing::kDropped) others.push_back(i);
    }
    std::ranges::stable_sort(others, {}, [this](int i) { return contenders_[i].verification.microseconds; });
    for (std::size_t i = std::max(entrants - 1, 1); i < others.size(); ++i) dropAfterFirstRun(others[i]);
  }

  void dropAfterFirstRun(int index) {
    RaceEntry& entry = contenders_[index].entry;
    entry.standing = Standing::kDropped;
    entry.blocks = {{contenders_[index].verification.microseconds}};
    entry.statistics = summarize(entry.blocks.front());
    context_.measurer.release(index);
  }

  Result<bool> stopHere() {
    TW_TRY(remains());
    return false;
  }

  /// Leaves a candidate out that the plan has no time for: it is neither refused nor measured.
  void dropUntried(Contender& contender) {
    contender.isAlive = false;
    contender.isRecorded = false;
    contender.entry.standing = Standing::kUnmeasured;
  }

  // --- The race. `racing_` maps its candidates to contenders. ---

  Result<std::vector<double>> run(const Block& block) override {
    const int index = racing_[block.candidate];
    context_.tell("racing", ++blocksRun_, blocksExpected_);
    Contender& contender = contenders_[index];
    const double typical = std::max(contender.verification.microseconds * 1e-6, runSeconds_);
    const int runs = block.warmups + block.repeats;
    const double limit = std::min(
        context_.candidateSeconds + kRunsUntilHung * typical + 2 * runs * (typical + 2 * context_.overheadSeconds),
        left());
    const MeasureOptions options{
        .warmups = block.warmups,
        .repeats = block.repeats,
        .restMilliseconds = block.final ? plan_.finalRestMilliseconds : plan_.probeRestMilliseconds};
    const auto start = Clock::now();
    Result<std::vector<double>> times = context_.measurer.measure(index, options, limit);
    if (!times) {
      contenders_.judge(contender, times.error());
      return times;
    }
    const double perRun = std::accumulate(times->begin(), times->end(), 0.0) * 1e-6 / block.repeats;
    const double overhead = (secondsSince(start) - options.restMilliseconds * 1e-3) / runs - perRun;
    if (overhead > 0) context_.overheadSeconds = 0.8 * context_.overheadSeconds + 0.2 * overhead;
    return times;
  }

  bool mayRun(double expectedMicroseconds) override {
    return !context_.mustStop() && expectedMicroseconds * 1e-6 < context_.secondsLeft();
  }

  bool mayLinger() override { return secondsSince(raceStart_) < raceSeconds(); }

  /// Races the verified contenders that `racing_` names. The entries go back to the contenders.
  RaceResult raceThese(std::vector<int> racing, const RacePlan& plan) {
    racing_ = std::move(racing);
    plan_ = plan;
    blocksRun_ = 0;
    raceStart_ = Clock::now();
    blocksExpected_ = static_cast<int>(plan.blocks);
    int defaultCandidate = -1;
    std::vector<Candidate> candidates;
    for (int i = 0; i < static_cast<int>(racing_.size()); ++i) {
      if (contenders_[racing_[i]].isDefault) defaultCandidate = i;
      candidates.push_back(contenders_[racing_[i]].candidate);
    }
    RaceResult result =
        race(static_cast<int>(racing_.size()), defaultCandidate, probeOrder(candidates), *this, plan.race);
    for (std::size_t i = 0; i < racing_.size(); ++i) contenders_[racing_[i]].entry = result.entries[i];
    return result;
  }

  Result<bool> raceAll(const RacePlan& plan) {
    std::vector<int> racing;
    for (int i = 0; i < contenders_.size(); ++i) {
      if (contenders_[i].isAlive && contenders_[i].entry.standing != Standing::kDropped) racing.push_back(i);
    }
    if (racing.empty()) {
      TW_TRY(end(ProblemStatus::kFailed, "no candidate could be run"));
      return false;
    }
    const RaceResult result = raceThese(racing, plan);
    if (result.winner < 0) {
      if (context_.mustStop()) return stopHere();
      TW_TRY(workerOrError());
      TW_TRY(end(ProblemStatus::kFailed, "no candidate could be measured"));
      return false;
    }
    winner_ = racing_[result.winner];
    complete_ = result.complete;
    return true;
  }

  /// Races the winner's untried neighbours against it and the default; false if there is nothing to try.
  Result<bool> refine(const RacePlan& plan) {
    std::vector<Candidate> untried;
    for (Candidate& each : neighbours(contenders_[winner_].candidate, problem_, context_.device)) {
      if (!contenders_.contains(each)) untried.push_back(std::move(each));
    }
    if (untried.empty()) return false;
    const int before = contenders_.size();
    TW_TRY(contenders_.add(untried, -1));
    if (!contenders_.build()) return false;
    for (int i = before; i < contenders_.size() && !context_.mustStop(); ++i) {
      if (contenders_[i].isAlive) TW_TRY(contenders_.prepare(i, candidateLimit(contenders_[i])));
    }
    std::vector<int> racing;
    for (int i = 0; i < contenders_.size(); ++i) {
      const bool isNew = i >= before && contenders_[i].isPrepared;
      if (contenders_[i].isAlive && (isNew || i == winner_ || contenders_[i].isDefault)) racing.push_back(i);
    }
    if (racing.size() < 2 || context_.mustStop()) return false;
    std::vector<RaceEntry> entries;
    for (const int i : racing) entries.push_back(contenders_[i].entry);
    const RaceResult result = raceThese(racing, plan);
    if (result.winner < 0) {
      // The budget cut this race: the first one's result stands.
      for (std::size_t i = 0; i < racing_.size(); ++i) contenders_[racing_[i]].entry = entries[i];
      return false;
    }
    const int previous = std::exchange(winner_, racing_[result.winner]);
    return winner_ != previous;
  }

  // --- The winner. ---

  std::optional<Statistics> defaultStatistics() const {
    const auto found = std::ranges::find_if(contenders_, &Contender::isDefault);
    if (found == contenders_.end() || found->entry.statistics.count == 0) return std::nullopt;
    return found->entry.statistics;
  }

  Result<void> commit() {
    // A race condition may show only after many runs: what is wrong now never wins.
    context_.tell("verifying", 1, 1);
    while (winner_ >= 0 && !context_.mustStop()) {
      Contender& winner = contenders_[winner_];
      const Result<Verification> again = context_.measurer.verify(winner_, candidateLimit(winner));
      if (again && again->ok) break;
      if (again) {
        winner.refuse(RecordStatus::kWrong, "wrong_result", fmt::format("after the race: {}", again->what));
      } else if (!context_.measurer.stopped()) {
        contenders_.judge(winner, again.error());
      } else {
        break;
      }
      winner.entry.standing = Standing::kFailed;
      TW_TRY(decideAgain());
    }
    if (winner_ < 0) return end(ProblemStatus::kFailed, "every candidate failed");

    const Contender& winner = contenders_[winner_];
    WinnerReport report{.templateId = std::string(winner.plan.kernelTemplate->id()),
                        .configuration = winner.plan.configuration,
                        .isDefault = winner.isDefault,
                        .statistics = winner.entry.statistics,
                        .defaultStatistics = defaultStatistics(),
                        .error = winner.verification.error,
                        .outlierError = winner.verification.outlierError,
                        .preparation = winner.verification.preparation,
                        .complete = complete_};
    double runnerUp = 0;
    for (const Contender& each : contenders_) {
      if (each.entry.statistics.count == 0 || !each.isAlive) continue;
      ++report.measured;
      report.tied += each.entry.standing == Standing::kTied;
      const double median = each.entry.statistics.median;
      if (&each != &winner && (runnerUp == 0 || median < runnerUp)) runnerUp = median;
    }
    TW_TRY(context_.store.commit(problem_, winner.plan, report, runnerUp, context_.effort));
    outcome_.winner = std::move(report);
    return end(ProblemStatus::kTuned, "");
  }

  Result<void> decideAgain() {
    std::vector<RaceEntry> entries;
    int defaultCandidate = -1;
    for (const Contender& each : contenders_) {
      if (each.isDefault && each.isAlive) defaultCandidate = static_cast<int>(entries.size());
      entries.push_back(each.entry);
      // Only finalists are measured well enough to follow a fallen winner.
      if (!each.isAlive) entries.back().standing = Standing::kFailed;
      if (each.isAlive && each.entry.standing == Standing::kSlower) entries.back().standing = Standing::kTied;
    }
    winner_ = decide(entries, defaultCandidate);
    if (winner_ >= 0) contenders_[winner_].entry.standing = Standing::kWinner;
    return {};
  }

  /// Records what lost and lists what was refused, whatever became of the problem.
  void report() {
    outcome_.refused = contenders_.refused();
    const std::vector<TuningStore::Loser> losers = contenders_.losers(winner_);
    // The winner is safe; a database that cannot take these any more fails at the next winner, with its reason.
    if (!losers.empty()) static_cast<void>(context_.store.addLosers(problem_, losers));
  }

  TunerContext& context_;
  const Problem problem_;
  double runSeconds_;
  double openSeconds_ = 0;
  ProblemOutcome outcome_;
  Contenders contenders_;
  std::vector<int> racing_;
  RacePlan plan_;
  int blocksRun_ = 0, blocksExpected_ = 0;
  Clock::time_point raceStart_;
  int winner_ = -1;
  bool complete_ = false;
};

}  // namespace

std::optional<std::string> doesNotFit(const Problem& problem, const DeviceInfo& device) {
  // On the CPU the host's and the device's copies of the operands are in the same memory while a problem is opened.
  const double share = device.kind == DeviceKind::kCpu ? 0.4 : 0.8;
  const double needed = bytes(problem);
  if (device.memoryBytes <= 0 || needed <= share * static_cast<double>(device.memoryBytes)) return std::nullopt;
  return fmt::format("its operands need {:.1f} GiB, the device has {:.1f} GiB", needed / (1 << 30),
                     static_cast<double>(device.memoryBytes) / (1 << 30));
}

Result<ProblemOutcome> tuneProblem(TunerContext& context, const ListedProblem& listed, double expectedRunSeconds) {
  return ProblemTuner(context, listed, expectedRunSeconds).tune();
}

}  // namespace tilewright::autotune
