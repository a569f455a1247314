// Order statistics, checked against exhaustive counts and synthetic noise.
#include "autotune/statistics.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tilewright::autotune {
namespace {

TEST(Statistics, medianIntervalAndDeviationOfKnownSamples) {
  // 15 samples: the interval is [x4, x12] (P(Binomial(15, 1/2) < 4) = 576 / 32768, twice that is 3.5 %).
  const std::vector<double> samples{15, 1, 14, 2, 13, 3, 12, 4, 11, 5, 10, 6, 9, 7, 8};
  const Statistics statistics = summarize(samples);
  EXPECT_EQ(statistics.median, 8);
  EXPECT_EQ(statistics.low, 4);
  EXPECT_EQ(statistics.high, 12);
  EXPECT_EQ(statistics.mad, 4);  // deviations 0, 1, 1, 2, 2, ... 7, 7: the eighth is 4
  EXPECT_EQ(statistics.minimum, 1);
  EXPECT_EQ(statistics.count, 15);
}

TEST(Statistics, evenCountsTakeTheMiddleOfTheMiddleTwo) {
  const std::vector<double> samples{4, 1, 3, 2};
  EXPECT_EQ(summarize(samples).median, 2.5);
  EXPECT_EQ(summarize(std::vector<double>{7}).median, 7);
}

TEST(Statistics, rankIsTheLargestWithNinetyFivePercent) {
  // Two-sided tails of Binomial(n, 1/2): n = 6: 2/64 = 3.1 %; n = 9: 2 (1 + 9) / 512 = 3.9 %; n = 8: 2 (1 + 8) / 256
  // = 7.0 %, so it stays at rank 1; n = 5: 2/32 = 6.3 % is the best there is.
  for (const auto& [count, rank] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {5, 1}, {6, 1}, {8, 1}, {9, 2}, {15, 4}}) {
    EXPECT_EQ(intervalRank(count), rank) << count;
  }
  // A large count approaches n / 2 - 0.98 sqrt(n), and nothing underflows.
  EXPECT_NEAR(intervalRank(100000), 50000 - 0.98 * 316.2, 2);
}

TEST(Statistics, intervalsHoldTheTrueMedianAsOftenAsTheyPromise) {
  // Skewed noise: a floor of 100 plus exponential delays of mean 5, whose median is 100 + 5 ln 2.
  std::mt19937_64 generator(7);
  std::exponential_distribution<double> delay(1.0 / 5);
  const double truth = 100 + 5 * std::log(2.0);
  constexpr int kTrials = 4000;
  int held = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(15);
    for (double& each : samples) each = 100 + delay(generator);
    const Statistics statistics = summarize(samples);
    held += statistics.low <= truth && truth <= statistics.high;
  }
  // Expected 96.5 %; four standard deviations of the count are 1.2 %.
  EXPECT_NEAR(static_cast<double>(held) / kTrials, 0.965, 0.012);
}

TEST(Statistics, onlyDisjointIntervalsAndMoreThanOnePercentTellApart) {
  const auto made = [](double median, double halfWidth) {
    return Statistics{.median = median, .low = median - halfWidth, .high = median + halfWidth, .count = 15};
  };
  EXPECT_TRUE(clearlyFaster(made(100, 1), made(103, 1)));
  EXPECT_FALSE(clearlyFaster(made(103, 1), made(100, 1)));
  EXPECT_FALSE(clearlyFaster(made(100, 2), made(103, 2)));    // the intervals touch
  EXPECT_FALSE(clearlyFaster(made(100, 0), made(100.9, 0)));  // within 1 %
  EXPECT_FALSE(clearlyFaster(made(100, 1), made(100, 1)));
}

}  // namespace
}  // namespace tilewright::autotune
