// What a set of measured times says: the median, how sure it is, and whether two sets differ.
//
// Times on a real machine are skewed (interrupts only ever add) and drift (clocks, power), so means and standard
// deviations mislead. Everything here is built from order statistics, which assume no distribution:
//
//   median      the middle sample
//   interval    [x(j), x(n+1-j)] of the sorted samples, with the largest j for which the interval holds the true median
//               with at least 95 %. Each sample lies below the true median with probability 1/2, so the interval misses
//               it with probability 2 P(Binomial(n, 1/2) < j): n = 15 gives j = 4, [x4, x12], 96.5 %. Below 6 samples
//               no interval reaches 95 %; then it is [x1, xn], of confidence 1 - 2^(1-n).
//   mad         the median absolute deviation from the median; 1.4826 times it estimates a normal's standard deviation
//
// Two candidates are told apart only if their intervals are disjoint and their medians differ by more than 1 %, which
// is what two measurements of the same code on the same card differ by.
#pragma once

#include <span>

namespace tilewright::autotune {

/// Of times in microseconds.
struct Statistics {
  double median = 0;
  double low = 0;  ///< confidence interval of the median
  double high = 0;
  double mad = 0;
  double minimum = 0;
  int count = 0;
};

/// Medians closer than this ratio are never told apart.
inline constexpr double kTieRatio = 1.01;

/// `samples` must not be empty; their order does not matter.
Statistics summarize(std::span<const double> samples);

/// The rank j (from 1) of the interval's lower end for n samples, at least 95 % where n allows it.
int intervalRank(int count);

/// Whether `a` is faster than `b` beyond noise. Neither of two ties is clearly faster.
bool clearlyFaster(const Statistics& a, const Statistics& b);

}  // namespace tilewright::autotune
