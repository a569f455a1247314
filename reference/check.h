// What an operation must compute, in double precision, and whether a result is that.
//
//   HostOperands operands = TW_TRY(makeOperands(problem));
//   Expectation expected = Expectation::compute(operands, {});
//   ... run a kernel on copies of the operands ...
//   Verdict verdict = TW_TRY(checkSamples(expected, Precision::kExact, readOutput));
//
// A problem within the budget is checked at every output. A larger one is checked at sampled rows (and columns of a
// linear operation): the edges of the tensor and of usual tiles, and random ones. reference/tolerance.h derives the
// bounds. The arithmetic here shares no code with the kernels, nor with base/q4k.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "reference/operands.h"

namespace tilewright::reference {

struct SampleOptions {
  double budget = 1e8;  ///< multiply-adds spent on the expectation; the least sample (its edges) may cost more
  std::uint64_t seed = 1;
};

/// Expected outputs of a linear operation at rows x columns.
struct LinearSamples {
  struct Row {
    std::int64_t index;
    double largest, norm;  ///< of |x| over the row, and its Euclidean norm
  };
  struct Column {
    std::int64_t index;
    double largest, norm;  ///< of |w| over the row of W, and its Euclidean norm
  };
  struct Value {
    double value;      ///< sum over k of x w, plus the bias
    double magnitude;  ///< sum of |x w|
    double energy;     ///< square root of the sum of (x w)^2
  };
  std::vector<Row> rows;
  std::vector<Column> columns;
  std::vector<Value> values;  ///< [rows, columns]
};

/// Expected rows of attention.
struct AttentionSamples {
  struct Value {
    double value;      ///< sum of p v
    double magnitude;  ///< sum of p |v|
    double energy;     ///< square root of the sum of (p v)^2
    double plain;      ///< the same computed in BF16 with FP32 sums, which FA3's rule compares with
  };
  struct Row {
    std::int64_t batch, head, row;
    std::int64_t visible;  ///< keys that the row sees
    double logSumExp;      ///< -inf for a row that sees none
    double scoreError;     ///< bound of what FP32 arithmetic may do to a score
  };
  std::vector<Row> rows;
  std::vector<Value> values;  ///< [rows, head_dim]
};

/// The expected outputs of a problem with its operands. Compute it once, check many results.
class Expectation {
 public:
  static Expectation compute(const HostOperands& operands, const SampleOptions& options);

  const Problem& problem() const { return problem_; }
  const OperandOptions& options() const { return options_; }
  const LinearSamples& linear() const { return linear_; }
  const AttentionSamples& attention() const { return attention_; }
  /// Strides of the output in elements; for a linear operation `row` and `column`.
  const Strides& outStrides() const { return outStrides_; }
  const Extent& outExtent() const { return outExtent_; }
  const Extent& lseExtent() const { return lseExtent_; }

 private:
  Problem problem_;
  OperandOptions options_;
  LinearSamples linear_;
  AttentionSamples attention_;
  Strides outStrides_;
  Extent outExtent_, lseExtent_;
};

struct Verdict {
  bool ok = true;
  double nrmse = 0;     ///< root-mean-square error over root-mean-square of the expected values, at the samples
  double maxError = 0;  ///< largest absolute error
  std::string what;     ///< the first rule that was broken, with place and values; empty if ok
};

/// Copies bytes of an output buffer (Role::kOut or Role::kLse), guards included, to the host.
using ReadOutput = std::function<Result<void>(Role role, std::int64_t firstByte, std::span<std::byte> to)>;

/// Checks the sampled outputs against the tolerance of `precision` (the plan's, see Template::precision): every value
/// written and finite, each error within its bound, and the normalized error within the precision's.
/// Fails only if reading does.
Result<Verdict> checkSamples(const Expectation& expected, Precision precision, const ReadOutput& read);

/// checkSamples, and over the whole output: every element written and finite (a log-sum-exp may be -inf), no byte
/// written outside the elements.
Result<Verdict> checkWhole(const Expectation& expected, Precision precision, const ReadOutput& read);

}  // namespace tilewright::reference
