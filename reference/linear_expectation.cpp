// out[i, j] = sum over k of x[i, k] w[j, k] (+ bias[j]) in double precision, with what the error bounds need.
//
// Q4_K is decoded here from the format's definition with its own bit reading, straight to double: w = d s q - dmin m.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "reference/expectation.h"

namespace tilewright::reference {
namespace {

double halfValue(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

double bf16Value(const void* at) {
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, at, 2);
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Weight `i` of the 144-byte super-block at `block`.
double q4kWeight(const std::uint8_t* block, int i) {
  std::uint16_t d = 0, dmin = 0;
  std::memcpy(&d, block, 2), std::memcpy(&dmin, block + 2, 2);
  const std::uint8_t* packed = block + 4;
  const int j = i / 32;
  int scale = 0, min = 0;
  if (j < 4) {
    scale = packed[j] % 64, min = packed[j + 4] % 64;
  } else {
    scale = packed[j + 4] % 16 + packed[j - 4] / 64 * 16, min = packed[j + 4] / 16 + packed[j] / 64 * 16;
  }
  const int byte = block[16 + i / 64 * 32 + i % 32];
  const int code = i / 32 % 2 == 0 ? byte % 16 : byte / 16;
  return halfValue(d) * scale * code - halfValue(dmin) * min;
}

/// Row `j` of W.
void decodeRow(const Problem& problem, const void* w, std::int64_t j, std::vector<double>& to) {
  const std::int64_t k = problem.linear.k;
  to.resize(static_cast<std::size_t>(k));
  const auto* bytes = static_cast<const std::uint8_t*>(w);
  if (problem.operation == Operation::kLinear) {
    for (std::int64_t i = 0; i < k; ++i) to[static_cast<std::size_t>(i)] = bf16Value(bytes + (j * k + i) * 2);
    return;
  }
  for (std::int64_t i = 0; i < k; ++i) {
    to[static_cast<std::size_t>(i)] = q4kWeight(bytes + (j * (k / 256) + i / 256) * 144, static_cast<int>(i % 256));
  }
}

struct Sums {
  double value = 0, magnitude = 0, squares = 0;
};

Sums dot(const std::vector<double>& x, const std::vector<double>& w) {
  // Four independent chains, so that the processor's additions overlap.
  constexpr std::size_t kChains = 4;
  std::array<Sums, kChains> chains;
  const std::size_t whole = x.size() / kChains * kChains;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Sums& sums = chains[i < whole ? i % kChains : 0];
    const double product = x[i] * w[i];
    sums.value += product, sums.magnitude += std::fabs(product), sums.squares += product * product;
  }
  Sums total;
  for (const Sums& each : chains) {
    total.value += each.value, total.magnitude += each.magnitude, total.squares += each.squares;
  }
  return total;
}

std::pair<double, double> largestAndNorm(const std::vector<double>& values) {
  double largest = 0, squares = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value)), squares += value * value;
  return {largest, std::sqrt(squares)};
}

}  // namespace

LinearSamples expectLinear(const HostOperands& operands, const SampleOptions& options) {
  const Problem& problem = operands.problem();
  const LinearShape& shape = problem.linear;
  const LinearOperands inputs = operands.inputs().linear;

  // Everything if it fits the budget, else a few columns by as many rows as fit, at least 16; more columns where rows
  // are few.
  const double budget = options.budget / static_cast<double>(shape.k);
  const bool whole = static_cast<double>(shape.m) * static_cast<double>(shape.n) <= budget;
  constexpr std::int64_t kFewestColumns = 96, kFewestRows = 16;
  const auto within = [&](std::int64_t others) {
    return static_cast<std::int64_t>(budget / static_cast<double>(std::max<std::int64_t>(1, others)));
  };
  const std::int64_t rowCount =
      whole ? shape.m : std::min(shape.m, std::max(kFewestRows, within(std::min(shape.n, kFewestColumns))));
  const std::int64_t columnCount = whole ? shape.n : std::min(shape.n, std::max(kFewestColumns, within(rowCount)));
  const std::vector<std::int64_t> rows = pickIndices(shape.m, rowCount, options.seed);
  const std::vector<std::int64_t> columns = pickIndices(shape.n, columnCount, options.seed + 1);

  LinearSamples samples;
  std::vector<std::vector<double>> x(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto* row = static_cast<const std::byte*>(inputs.x) + rows[r] * inputs.xStride * 2;
    x[r].resize(static_cast<std::size_t>(shape.k));
    for (std::int64_t i = 0; i < shape.k; ++i) x[r][static_cast<std::size_t>(i)] = bf16Value(row + i * 2);
    const auto [largest, norm] = largestAndNorm(x[r]);
    samples.rows.push_back({.index = rows[r], .largest = largest, .norm = norm});
  }

  samples.values.resize(rows.size() * columns.size());
  std::vector<double> w;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    decodeRow(problem, inputs.w, columns[c], w);
    const auto [largest, norm] = largestAndNorm(w);
    samples.columns.push_back({.index = columns[c], .largest = largest, .norm = norm});
    const double bias = shape.bias ? bf16Value(static_cast<const std::byte*>(inputs.bias) + columns[c] * 2) : 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Sums sums = dot(x[r], w);
      samples.values[r * columns.size() + c] = {
          .value = sums.value + bias, .magnitude = sums.magnitude, .energy = std::sqrt(sums.squares)};
    }
  }
  return samples;
}

}  // namespace tilewright::reference
