// Finds the fastest of many candidates with few runs: a few for all, more, interleaved, for those that may still win.
//
//   probe    every candidate, likely winners first, gets a short block of runs; whoever is slower than
//            `dropRatio` times the fastest so far is out (and a slow problem's candidate already after one run)
//   finals   the fastest `leaders` and the default are measured in rounds, one block each per round, in an order that
//            rotates; after each round whoever is clearly slower than the fastest (statistics.h) is out
//   drift    clocks sink as a card warms up, and other processes come and go: round r took d(r)
//            times as long as round 0 for the candidates that were in both (the median of their
//            ratios of block medians). Samples are divided by d(r) and multiplied by the
//            geometric mean of all d, so that what slows everybody down is not taken for
//            spread
//   verdict  all that cannot be told apart from the fastest are tied. If the default is tied it
//            wins: nothing is gained by leaving it. Otherwise the first in the candidates' fixed
//            order wins. Two sweeps therefore agree, and a winner is never slower than the
//            default.
//
// The race knows neither devices nor processes: it asks a Runner for times, and tests drive it with synthetic noise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotune/statistics.h"
#include "base/result.h"

namespace tilewright::autotune {

class Runner {
 public:
  virtual ~Runner() = default;
  struct Block {
    int candidate;
    int warmups;  ///< runs that are not timed, first
    int repeats;
    bool final;  ///< of the finals, not of the probe
  };
  /// Microseconds of each of the block's repeats. An error is the candidate's own: it leaves the race.
  virtual Result<std::vector<double>> run(const Block& block) = 0;
  /// Whether a block that is expected to take this long still fits the budget, and nobody asked to stop.
  virtual bool mayRun(double expectedMicroseconds) { return true; }
  /// Whether more rounds are worth their time, once every finalist has had two. The race then ends, it is not cut
  /// short.
  virtual bool mayLinger() { return true; }
};

struct RaceOptions {
  int probeWarmups = 1;
  int probeRepeats = 3;
  double dropRatio = 1.3;           ///< of the fastest probe's median
  double scoutMicroseconds = 50e3;  ///< a probe that would take longer is preceded by a single run
  int leaders = 6;
  int rounds = 4;
  int extraRounds = 4;  ///< at most so many more while tied medians still differ by more than 3 %
  int roundWarmups = 1;
  int roundRepeats = 5;
};

enum class Standing {
  kUnmeasured,  ///< the budget ended before its probe
  kFailed,      ///< its runner reported an error
  kDropped,     ///< slower than the drop ratio in the probe
  kSlower,      ///< measured in the finals and clearly slower
  kTied,        ///< cannot be told apart from the fastest
  kWinner,
};

struct RaceEntry {
  Standing standing = Standing::kUnmeasured;
  std::vector<std::vector<double>> blocks;  ///< microseconds as measured: the probe, replaced by one block per round
  Statistics statistics;                    ///< of all blocks, less drift; count 0 when there are none
  Error error{};                            ///< of kFailed
};

struct RaceResult {
  int winner = -1;                 ///< none if no candidate ran, or the race was cut before its finals had a round
  bool complete = false;           ///< all rounds were run
  std::vector<RaceEntry> entries;  ///< by candidate
};

/// `defaultCandidate` is -1 if the default cannot run. Candidates are 0 to count - 1 in the fixed order that breaks
/// ties. `probeOrder` is a permutation of them, likely winners first; the default is probed first whatever its place.
RaceResult race(int count, int defaultCandidate, const std::vector<int>& probeOrder, Runner& runner,
                const RaceOptions& options);

/// The winner among the measured entries by the verdict's rule; -1 if none was measured. Marks ties and the winner.
int decide(std::vector<RaceEntry>& entries, int defaultCandidate);

}  // namespace tilewright::autotune
