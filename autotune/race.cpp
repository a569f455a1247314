#include "autotune/race.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tilewright::autotune {
namespace {

constexpr int kEnoughSamples = 10;  // of a candidate that nothing competes with any more, and of the default
constexpr double kDisputedRatio = 1.03;
constexpr int kLeastRounds = 2;

bool isRunning(const RaceEntry& entry) {
  return entry.statistics.count > 0 && entry.standing != Standing::kFailed && entry.standing != Standing::kDropped &&
         entry.standing != Standing::kSlower;
}

int fastestOf(const std::vector<RaceEntry>& entries) {
  int fastest = -1;
  for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
    if (isRunning(entries[i]) && (fastest < 0 || entries[i].statistics.median < entries[fastest].statistics.median)) {
      fastest = i;
    }
  }
  return fastest;
}

class Race {
 public:
  Race(int count, int defaultCandidate, Runner& runner, const RaceOptions& options)
      : defaultCandidate_(defaultCandidate), runner_(runner), options_(options) {
    result_.entries.resize(count);
  }

  RaceResult run(const std::vector<int>& probeOrder) {
    bool cut = defaultCandidate_ >= 0 && !probe(defaultCandidate_);
    for (const int candidate : probeOrder) {
      if (cut) break;
      if (candidate != defaultCandidate_) cut = !probe(candidate);
    }
    dropTheHopeless();
    if (cut || !finals()) return std::move(result_);
    result_.winner = decide(result_.entries, defaultCandidate_);
    return std::move(result_);
  }

 private:
  /// Appends a block of runs; false if the candidate failed in it.
  bool block(const Runner::Block& of) {
    RaceEntry& entry = result_.entries[of.candidate];
    Result<std::vector<double>> times = runner_.run(of);
    if (!times || times->empty()) {
      entry.standing = Standing::kFailed;
      entry.error = times ? Error{ErrorCode::kInternal, "a block of runs gave no times"} : std::move(times).error();
      return false;
    }
    entry.blocks.push_back(std::move(*times));
    if (entry.blocks.size() == 1) entry.statistics = summarize(entry.blocks.front());
    return true;
  }

  double bestMedian() const {
    const int fastest = fastestOf(result_.entries);
    return fastest < 0 ? 0 : result_.entries[fastest].statistics.median;
  }

  /// False when the budget does not allow the probe.
  bool probe(int candidate) {
    RaceEntry& entry = result_.entries[candidate];
    const double expected = bestMedian();
    const int runs = options_.probeWarmups + options_.probeRepeats;
    if (!runner_.mayRun(expected * runs)) return false;
    if (expected * runs > options_.scoutMicroseconds && candidate != defaultCandidate_) {
      if (!block({candidate, 0, 1, false})) return true;
      // The single run is cold, so it is judged twice as mildly.
      if (entry.statistics.median > 2 * options_.dropRatio * expected) {
        entry.standing = Standing::kDropped;
        return true;
      }
      entry.blocks.clear();
    }
    block({candidate, options_.probeWarmups, options_.probeRepeats, false});
    return true;
  }

  void dropTheHopeless() {
    const double limit = options_.dropRatio * bestMedian();
    std::vector<int> order;
    for (int i = 0; i < static_cast<int>(result_.entries.size()); ++i) {
      RaceEntry& entry = result_.entries[i];
      if (!isRunning(entry) || i == defaultCandidate_) continue;
      if (entry.statistics.median > limit) {
        entry.standing = Standing::kDropped;
      } else {
        order.push_back(i);
      }
    }
    std::ranges::stable_sort(order, {}, [this](int i) { return result_.entries[i].statistics.median; });
    for (std::size_t i = options_.leaders; i < order.size(); ++i)
      result_.entries[order[i]].standing = Standing::kDropped;
  }

  /// False when the budget ended before one whole round.
  bool finals() {
    // The probe chose the finalists; its blocks were far apart in time and do not count.
    for (RaceEntry& entry : result_.entries) {
      if (isRunning(entry)) entry.blocks.clear();
    }
    int fullRounds = 0;
    for (int round = 0; round < options_.rounds + options_.extraRounds; ++round) {
      std::vector<int> runners;
      for (int i = 0; i < static_cast<int>(result_.entries.size()); ++i) {
        if (isRunning(result_.entries[i])) runners.push_back(i);
      }
      if (runners.empty()) return false;
      if (runners.size() == 1 && result_.entries[runners.front()].statistics.count >= kEnoughSamples) break;
      if (round >= options_.rounds && !disputed()) break;
      if (round >= kLeastRounds && !runner_.mayLinger()) break;

      std::ranges::rotate(runners, runners.begin() + round % static_cast<int>(runners.size()));
      for (const int candidate : runners) {
        const double expected = result_.entries[candidate].statistics.median;
        if (!runner_.mayRun(expected * (options_.roundWarmups + options_.roundRepeats))) return fullRounds > 0;
        block({candidate, options_.roundWarmups, options_.roundRepeats, true});
      }
      ++fullRounds;
      removeDrift(fullRounds);
      dropTheSlower();
    }
    result_.complete = true;
    return true;
  }

  /// Statistics of the finalists over the first `rounds` rounds, with each round's common slowdown divided out.
  void removeDrift(int rounds) {
    std::vector<double> drift;
    double logarithms = 0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> ratios;
      for (const RaceEntry& entry : result_.entries) {
        if (isRunning(entry) && static_cast<int>(entry.blocks.size()) > round) {
          ratios.push_back(summarize(entry.blocks[round]).median / summarize(entry.blocks.front()).median);
        }
      }
      // One candidate alone would hide its own spread.
      drift.push_back(ratios.size() < 2 ? 1 : summarize(ratios).median);
      logarithms += std::log(drift.back());
    }
    const double typical = std::exp(logarithms / rounds);

    for (RaceEntry& entry : result_.entries) {
      if (!isRunning(entry)) continue;
      std::vector<double> corrected;
      for (std::size_t round = 0; round < entry.blocks.size(); ++round) {
        for (const double time : entry.blocks[round]) corrected.push_back(time / drift[round] * typical);
      }
      entry.statistics = summarize(corrected);
    }
  }

  void dropTheSlower() {
    const int fastest = fastestOf(result_.entries);
    for (RaceEntry& entry : result_.entries) {
      // The default stays until its own median has an interval: its speed is reported.
      const bool isDefault = defaultCandidate_ >= 0 && &entry == &result_.entries[defaultCandidate_];
      const bool owedMore = isDefault && entry.statistics.count < kEnoughSamples;
      if (isRunning(entry) && !owedMore && clearlyFaster(result_.entries[fastest].statistics, entry.statistics)) {
        entry.standing = Standing::kSlower;
      }
    }
  }

  /// Whether some tie hides a difference that is worth more runs.
  bool disputed() const {
    const double best = bestMedian();
    return std::ranges::any_of(result_.entries, [best](const RaceEntry& entry) {
      return isRunning(entry) && entry.statistics.median > kDisputedRatio * best;
    });
  }

  int defaultCandidate_;
  Runner& runner_;
  const RaceOptions& options_;
  RaceResult result_;
};

}  // namespace

int decide(std::vector<RaceEntry>& entries, int defaultCandidate) {
  const int fastest = fastestOf(entries);
  if (fastest < 0) return -1;
  for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
    if (!isRunning(entries[i])) continue;
    if (clearlyFaster(entries[fastest].statistics, entries[i].statistics)) {
      entries[i].standing = Standing::kSlower;
      continue;
    }
    entries[i].standing = Standing::kTied;
  }
  // A noisy candidate may be tied with the fastest and yet have a median above the default's: it must not win.
  // A default that failed on the way is nothing to compare with, whatever it measured before.
  const bool hasDefault = defaultCandidate >= 0 && entries[defaultCandidate].standing != Standing::kFailed;
  const Statistics defaults = hasDefault ? entries[defaultCandidate].statistics : Statistics{};
  int winner = -1;
  for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
    if (entries[i].standing != Standing::kTied) continue;
    if (i == defaultCandidate) {
      winner = i;
      break;
    }
    if (winner < 0 && (defaults.count == 0 || entries[i].statistics.median <= defaults.median)) winner = i;
  }
  entries[winner].standing = Standing::kWinner;
  return winner;
}

RaceResult race(int count, int defaultCandidate, const std::vector<int>& probeOrder, Runner& runner,
                const RaceOptions& options) {
  assert(defaultCandidate < count && static_cast<int>(probeOrder.size()) == count);
  return Race(count, defaultCandidate, runner, options).run(probeOrder);
}

}  // namespace tilewright::autotune
