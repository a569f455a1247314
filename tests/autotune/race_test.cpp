// The race on synthetic noise: no hardware, no clock.
#include "autotune/race.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace tilewright::autotune {
namespace {

// Candidates with a true time each; runs take it, times noise that only slows down, times a drift over the race.
class SyntheticRunner : public Runner {
 public:
  explicit SyntheticRunner(std::vector<double> truth, std::uint64_t seed = 1)
      : truth_(std::move(truth)), generator_(seed) {}

  Result<std::vector<double>> run(const Block& block) override {
    const auto [candidate, warmups, repeats, final] = block;
    if (crashing.contains(candidate)) return fail(ErrorCode::kDevice, "candidate {} faulted", candidate);
    std::vector<double> times;
    for (int i = 0; i < warmups + repeats; ++i) {
      std::exponential_distribution<double> delay(1.0);
      const double time =
          truth_[candidate] * (1 + noise * delay(generator_)) * (1 + drift * static_cast<double>(clock_));
      clock_ += truth_[candidate];
      if (i >= warmups) times.push_back(time);
      ++runs[candidate];
    }
    return times;
  }
  bool mayRun(double expected) override { return clock_ + expected <= budget; }

  double noise = 0.002;
  double drift = 0;
  double budget = INFINITY;
  std::set<int> crashing;
  std::map<int, int> runs;

 private:
  std::vector<double> truth_;
  std::mt19937_64 generator_;
  double clock_ = 0;
};

std::vector<int> inOrder(int count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Race, findsTheFastestAndSpendsLittleOnTheHopeless) {
  SyntheticRunner runner({120, 100, 300, 110, 500, 104, 900});
  const RaceResult result = race(7, 0, inOrder(7), runner, {});
  EXPECT_EQ(result.winner, 1);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.entries[1].standing, Standing::kWinner);
  EXPECT_EQ(result.entries[3].standing, Standing::kSlower);
  for (const int hopeless : {2, 4, 6}) {
    EXPECT_EQ(result.entries[hopeless].standing, Standing::kDropped);
    EXPECT_LT(runner.runs[hopeless], runner.runs[1] / 3);
  }
  EXPECT_GE(result.entries[1].statistics.count, 10);
  EXPECT_GE(result.entries[0].statistics.count, 10)
      << "the default's speed is reported, so its median needs an interval";
}

TEST(Race, tiesGoToTheDefaultThenToTheFixedOrderInEverySweep) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SyntheticRunner tied({100, 100, 100, 100}, seed);
    EXPECT_EQ(race(4, 2, inOrder(4), tied, {}).winner, 2) << seed;
    // The default is clearly slower: the first of the three others, whatever noise says.
    SyntheticRunner others({130, 100.2, 100, 100.1}, seed);
    EXPECT_EQ(race(4, 0, {3, 2, 1, 0}, others, {}).winner, 1) << seed;
  }
}

TEST(Race, winnerIsNeverSlowerThanTheDefaultHoweverNoisy) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SyntheticRunner runner({100, 101, 99, 102, 98, 105}, seed);
    runner.noise = 0.2;
    const RaceResult result = race(6, 3, inOrder(6), runner, {});
    ASSERT_GE(result.winner, 0);
    EXPECT_LE(result.entries[result.winner].statistics.median, result.entries[3].statistics.median) << seed;
  }
}

TEST(Race, driftFavoursNobody) {
  // The clock slows by a third over the race. Candidate 2 is 5 % faster and is measured last in the probe.
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SyntheticRunner runner({100, 100, 95}, seed);
    runner.drift = 0.33 / 9000;
    EXPECT_EQ(race(3, 0, inOrder(3), runner, {}).winner, 2) << seed;
  }
}

TEST(Race, aDefaultThatFailedIsNothingToCompareWith) {
  std::vector<RaceEntry> entries(2);
  entries[0].statistics = summarize(std::array{99.0, 100.0, 101.0});
  entries[0].standing = Standing::kFailed;
  entries[1].statistics = summarize(std::array{100.0, 101.0, 102.0});
  EXPECT_EQ(decide(entries, 0), 1);
  EXPECT_EQ(entries[1].standing, Standing::kWinner);
}

TEST(Race, failingCandidatesCostThemselvesOnly) {
  SyntheticRunner runner({100, 50, 80});
  runner.crashing = {1};
  const RaceResult result = race(3, 0, inOrder(3), runner, {});
  EXPECT_EQ(result.winner, 2);
  EXPECT_EQ(result.entries[1].standing, Standing::kFailed);
  EXPECT_EQ(result.entries[1].error.message, "candidate 1 faulted");

  SyntheticRunner broken({100, 50});
  broken.crashing = {0};
  EXPECT_EQ(race(2, 0, inOrder(2), broken, {}).winner, 1) << "a default that fails does not stop the race";
  broken.crashing = {0, 1};
  EXPECT_EQ(race(2, 0, inOrder(2), broken, {}).winner, -1);
}

TEST(Race, slowProblemsDropCandidatesAfterOneRun) {
  SyntheticRunner runner({1e6, 10e6});
  race(2, 0, inOrder(2), runner, {});
  EXPECT_EQ(runner.runs[1], 1);
}

TEST(Race, twoRoundsEndARaceThatMayNotLinger) {
  class Hasty : public SyntheticRunner {
   public:
    using SyntheticRunner::SyntheticRunner;
    bool mayLinger() override { return false; }
  };
  Hasty runner({100, 100.1, 80});
  runner.noise = 0.2;
  const RaceResult result = race(3, 0, inOrder(3), runner, {});
  EXPECT_TRUE(result.complete);
  EXPECT_GE(result.winner, 0);
  EXPECT_LE(runner.runs[0], 4 + 2 * 6) << "the probe and two rounds";
}

TEST(Race, budgetThatEndsInTheProbeLeavesNoWinner) {
  SyntheticRunner runner({100, 90, 95});
  runner.budget = 700;
  const RaceResult result = race(3, 0, inOrder(3), runner, {});
  EXPECT_EQ(result.winner, -1);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.entries[2].standing, Standing::kUnmeasured);
}

TEST(Race, budgetThatEndsInTheFinalsKeepsTheBestSoFar) {
  SyntheticRunner runner({100, 80});
  runner.noise = 0;
  runner.budget = 720 + 1080 + 500;  // the probe (4 runs each), one round (6 runs each), half a round
  const RaceResult result = race(2, 0, inOrder(2), runner, {});
  EXPECT_EQ(result.winner, 1);
  EXPECT_FALSE(result.complete);
}

}  // namespace
}  // namespace tilewright::autotune
