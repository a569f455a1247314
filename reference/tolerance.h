// How far a right result may be from the exact one, derived from the formats involved.
//
// Rounding to BF16 (8 significant bits) errs by at most 2^-8 of the value and, uniformly within the last place, by
// 2^-7 / sqrt(12) of it in the root-mean-square. Errors e_i of independent roundings, each within +-a_i, sum to more
// than z |a| (|a| the Euclidean norm) with probability at most 2 exp(-z^2 / 2) (Hoeffding): z = 7 leaves 5e-11 per
// output, less than one false alarm in a thousand runs of the whole suite. Where values repeat ("structured" operands)
// the errors are not independent, and the sum of the a_i bounds them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "reference/check.h"

namespace tilewright::reference {

inline constexpr double kHoeffding = 7;
inline constexpr double kBf16Unit = 0x1p-8;
inline constexpr double kE4m3Unit = 0x1p-4;

/// How errors of single products add up.
inline double accumulated(double unit, double magnitude, double energy, bool structured) {
  return structured ? unit * magnitude : kHoeffding * unit * energy;
}

/// Largest error of one output of a linear operation.
inline double linearBound(const Problem& problem, Precision precision, bool structured, const LinearSamples::Row& row,
                          const LinearSamples::Column& column, const LinearSamples::Value& value) {
  const auto k = static_cast<double>(problem.linear.k);
  // FP32 sums: k additions, each within 2^-24 of a partial sum; a partial sum of independent terms stays below z
  // |terms|.
  double error = accumulated(k * 0x1p-24, value.magnitude, value.energy, structured);
  switch (precision) {
    case Precision::kExact:
    case Precision::kFast:
      // Q4_K weights may be rounded to BF16; BF16 products are exact in FP32.
      if (problem.operation == Operation::kQ4kLinear) {
        error += accumulated(kBf16Unit, value.magnitude, value.energy, structured);
      }
      break;
    case Precision::kFp8:
      // Activations: 2^-4 of each, or half the subnormal step 2^-9 of a scale that maps the row's largest to 448.
      // Weights are centred before rounding, which makes them at most twice the row's largest. The tensor core keeps 14
      // bits.
      error += accumulated(kE4m3Unit, value.magnitude, value.energy, structured) +
               (structured ? std::sqrt(k) : kHoeffding) *
                   (row.largest / 448 * 0x1p-10 * column.norm + kE4m3Unit * 2 * column.largest * row.norm) +
               accumulated(k / 32 * 0x1p-13, value.magnitude, value.energy, structured);
      break;
    case Precision::kInt8:
      // Half a step of row.largest / 127 for activations, and of twice the largest weight / 127 for centred weights.
      // The sum of |w| is at most sqrt(k) times the norm.
      error += (structured ? std::sqrt(k) : kHoeffding) *
               (row.largest / 254 * column.norm + column.largest / 127 * row.norm);
      break;
  }
  // The output's own rounding, of a value that is already off by `error`.
  return error + kBf16Unit * (std::fabs(value.value) + error) + std::numeric_limits<float>::min();
}

/// The slack of a root-mean-square over `count` errors: a mean square's relative deviation is about sqrt(2 / count),
/// taken six times.
inline double sampleSlack(std::int64_t count) {
  return std::sqrt(1 + 6 * std::sqrt(2.0 / static_cast<double>(count)));
}

/// By how much the weights' rounding errors grow, in the root-mean-square of their sum, when all of a row's activations
/// are equal.
///
/// Nothing then averages over the 32 weights of a sub-block whose codes are equal: they are the same value and err by
/// the same amount. With codes of probabilities p_c and errors of variances v_c, a sub-block's sum of errors has the
/// variance sum of E[n_c^2] v_c, where n_c is how often a code occurs: E[n_c^2] = 32 p_c + 32 31 p_c^2. Over that of
/// independent errors, 32 sum of p_c v_c, this is
///
///   1 + 31 (sum of p_c^2 v_c) / (sum of p_c v_c)
///
/// Gaussian weights reach 16 codes evenly over +-2.05 deviations, what lies beyond takes the first or the last. Integer
/// steps have equal v_c: the quotient is 0.078 and the growth 1.85. Floating-point formats have v_c in proportion to
/// the value's square, and rare codes hold the large values: 0.0457 and 1.555.
inline double equalCodesGrowth(Precision precision) {
  return std::sqrt(1 + 31 * (precision == Precision::kInt8 ? 0.078 : 0.0457));
}

/// Share of the energy that super-blocks with d = 0 have where every second one does: they hold the least of each 32
/// normal weights, whose square is 4.53 on average, beside ones of 1.
inline constexpr double kMinsEnergy = 0.819;

/// The weights' share of a normalized error in E4M3 where their values do not spread over binades.
///
/// A value errs by at most 2^-4 of the power of two below it, evenly: 2^-4 / sqrt(3) of itself at the worst place.
/// Normal values average that over a binade; a few mins, each 32 times, may all lie at the worst.
inline double minsShareE4m3(double normalShare) {
  const double worst = kE4m3Unit / std::numbers::sqrt3;
  return std::sqrt(kMinsEnergy * worst * worst + (1 - kMinsEnergy) * normalShare * normalShare);
}

/// Variance of one output's error from weights that are rounded to steps of their row's largest / 127.
inline double int8StepVariance(const LinearSamples::Row& row, const LinearSamples::Column& column) {
  const double step = column.largest / 127;
  return step * step / 12 * row.norm * row.norm;
}

/// Largest normalized root-mean-square error over many outputs of a linear operation.
inline double linearNrmseLimit(const Problem& problem, Precision precision, const OperandOptions& options) {
  const bool blocks = problem.operation == Operation::kQ4kLinear;
  // The specification's limits are for two equal and independent shares: weights and activations, or, in BF16, weights
  // and output. Constant rows change both. The activations are exact (their one value is the largest), the weights'
  // share grows as above.
  const bool constant = blocks && options.activations == Activations::kConstantRows;
  const double weights = constant ? equalCodesGrowth(precision) : 1;
  const double oneShare = weights / std::numbers::sqrt2;
  switch (precision) {
    case Precision::kExact:
    case Precision::kFast:
      // One rounding (the output) for BF16 weights: 2^-7 / sqrt(12), and FP32 sums that are off by less than a tenth of
      // it. Two independent ones (weights and output) for Q4_K: sqrt(2) of 0.166 %, the value for normal data, is 0.235
      // %; the specification says 0.3 %.
      return blocks ? 0.003 * std::hypot(oneShare, 1 / std::numbers::sqrt2) : 0x1p-7 / std::sqrt(12.0) * 1.1;
    case Precision::kFp8:
      // 2.65 % each for x and w: sqrt(2) of it is 3.75 %.
      if (options.weights == Weights::kOnlyMins && blocks) {
        return std::hypot(0.04 / std::numbers::sqrt2, minsShareE4m3(0.04 / std::numbers::sqrt2));
      }
      return 0.04 * (constant ? oneShare : 1);
    case Precision::kInt8:
      // The specification's; per token and per row: 1.24 %.
      if (options.activations == Activations::kOutliers) return 0.02;
      return 0.014 * (constant ? oneShare : 1);
  }
  return 0;
}

/// Largest error of one output of attention in BF16.
///
/// Probabilities are rounded to BF16 and carry the scores' errors; FP32 sums over the keys go in steps of at least 16
/// (one MMA) or are themselves exact to 2^-24 per key, each step within 2^-22 of the partial sum; exp2 errs by 2^-22.
inline double attentionBound(bool structured, const AttentionSamples::Row& row, const AttentionSamples::Value& value) {
  if (row.visible == 0) return 0;
  const double steps = static_cast<double>(row.visible) / 16 + 8;
  const double unit = kBf16Unit + row.scoreError + 0x1p-22;
  const double error = accumulated(unit, value.magnitude, value.energy, structured) +
                       steps * 0x1p-22 * (kHoeffding * value.energy + std::fabs(value.value));
  // Each score's error also moves the denominator: the row's common factor.
  const double denominator = std::fabs(value.value) * row.scoreError;
  return error + denominator + kBf16Unit * (std::fabs(value.value) + error) + std::numeric_limits<float>::min();
}

/// Largest error of a log-sum-exp: 1e-3 by specification, and what FP32 can hold of it and of the scores behind it.
inline double logSumExpBound(const AttentionSamples::Row& row) {
  return 1e-3 + 0x1p-22 * std::fabs(row.logSumExp) + row.scoreError;
}

}  // namespace tilewright::reference
