#include "autotune/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace tilewright::autotune {
namespace {

constexpr double kMissProbability = 0.05;

double medianOfSorted(std::span<const double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

int intervalRank(int count) {
  // Sum the lower tail of Binomial(count, 1/2) term by term, in logarithms: 2^-count underflows for large counts.
  double logTerm = -count * std::log(2.0);
  double tail = 0;
  int rank = 0;
  while (rank < (count + 1) / 2) {
    tail += std::exp(logTerm);
    if (2 * tail > kMissProbability) break;
    logTerm += std::log(static_cast<double>(count - rank)) - std::log(static_cast<double>(rank + 1));
    ++rank;
  }
  return std::max(rank, 1);
}

Statistics summarize(std::span<const double> samples) {
  assert(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);

  Statistics statistics;
  statistics.count = static_cast<int>(sorted.size());
  statistics.median = medianOfSorted(sorted);
  statistics.minimum = sorted.front();
  const auto rank = static_cast<std::size_t>(intervalRank(statistics.count));
  statistics.low = sorted[rank - 1];
  statistics.high = sorted[sorted.size() - rank];

  for (double& each : sorted) each = std::abs(each - statistics.median);
  std::ranges::sort(sorted);
  statistics.mad = medianOfSorted(sorted);
  return statistics;
}

bool clearlyFaster(const Statistics& a, const Statistics& b) {
  return a.high < b.low && a.median * kTieRatio < b.median;
}

}  // namespace tilewright::autotune
