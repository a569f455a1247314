#include "reference/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "reference/expectation.h"
#include "reference/random.h"
#include "reference/tolerance.h"

namespace tilewright::reference {
namespace {

// All bits set: what outputs are filled with before a run. Neither a GPU nor a CPU makes this NaN.
constexpr std::uint16_t kPoison16 = 0xffff;
constexpr std::uint32_t kPoison32 = 0xffffffff;
constexpr std::int64_t kFewestForStatistics = 256;
constexpr std::int64_t kFewestPerLine = 32;

/// Gathers a verdict; the first broken rule is kept.
class Judge {
 public:
  template <typename... Arguments>
  void fault(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (!verdict_.ok) return;
    verdict_.ok = false;
    verdict_.what = fmt::format(format, std::forward<Arguments>(arguments)...);
  }

  /// Takes one sampled output. `place` is called only for messages.
  template <typename Place>
  void take(Bf16 got, double want, double bound, Place place) {
    const double value = toFloat(got);
    if (got.bits == kPoison16) {
      fault("{} was not written", place());
    } else if (std::isnan(value)) {
      fault("{} is NaN, expected {:.6g}", place(), want);
    } else {
      const double error = std::fabs(value - want);
      if (!(error <= bound)) {
        fault("{} is {:.6g}, expected {:.6g}: error {:.3g}, allowed {:.3g}", place(), value, want, error, bound);
      }
      errorSquares_ += error * error, valueSquares_ += want * want, ++count_;
      verdict_.maxError = std::max(verdict_.maxError, error);
    }
  }

  std::int64_t count() const { return count_; }
  Verdict finish() {
    if (errorSquares_ > 0) verdict_.nrmse = std::sqrt(errorSquares_ / valueSquares_);
    return verdict_;
  }

 private:
  Verdict verdict_;
  double errorSquares_ = 0, valueSquares_ = 0;
  std::int64_t count_ = 0;
};

/// Reads `count` outputs that are `stride` elements apart.
Result<std::vector<Bf16>> readStrided(const ReadOutput& read, const Extent& extent, std::int64_t first,
                                      std::int64_t count, std::int64_t stride) {
  const std::int64_t low = std::min<std::int64_t>(0, (count - 1) * stride),
                     high = std::max<std::int64_t>(0, (count - 1) * stride);
  std::vector<Bf16> span(static_cast<std::size_t>(high - low + 1));
  TW_TRY(read(Role::kOut, extent.origin + (first + low) * 2, std::as_writable_bytes(std::span(span))));
  if (stride == 1) return span;
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = span[static_cast<std::size_t>(i * stride - low)];
  return values;
}

/// Mean squares of the errors along one row or column of samples, against those of the terms they stem from.
struct Line {
  double errors = 0, terms = 0;
  double steps = 0;  // variance of what the weights' common step adds where the terms do not bound it
  std::int64_t count = 0;

  void take(double error, const LinearSamples::Value& value) {
    errors += error * error, terms += std::max(value.energy * value.energy, value.value * value.value), ++count;
  }
  bool exceeds(double limit) const {
    return count >= kFewestPerLine && errors > std::pow(sampleSlack(count), 2) * (limit * limit * terms + steps);
  }
  double relative() const { return std::sqrt(errors / terms); }
};

Result<Verdict> checkLinear(const Expectation& expected, Precision precision, const ReadOutput& read) {
  const LinearSamples& samples = expected.linear();
  const bool structured = isStructured(expected.options());
  const double limit = linearNrmseLimit(expected.problem(), precision, expected.options());
  // A column's energy lies in the few outlier channels. Where weights of any size meet, a row of W may have only small
  // ones there, which its common step rounds as coarsely as the large ones.
  const bool hasUnevenColumns = precision == Precision::kInt8 &&
                                expected.options().activations == Activations::kOutliers &&
                                expected.options().weights == Weights::kAnyBits;
  const std::int64_t n = expected.problem().linear.n;
  Judge judge;
  std::vector<Line> columnLines(samples.columns.size());
  for (std::size_t r = 0; r < samples.rows.size(); ++r) {
    const LinearSamples::Row& row = samples.rows[r];
    const std::vector<Bf16> got =
        TW_TRY(readStrided(read, expected.outExtent(), row.index * expected.outStrides().row, n, 1));
    Line rowLine;
    for (std::size_t c = 0; c < samples.columns.size(); ++c) {
      const LinearSamples::Column& column = samples.columns[c];
      const LinearSamples::Value& value = samples.values[r * samples.columns.size() + c];
      const Bf16 result = got[static_cast<std::size_t>(column.index)];
      judge.take(result, value.value, linearBound(expected.problem(), precision, structured, row, column, value),
                 [&] { return fmt::format("out[{}, {}]", row.index, column.index); });
      rowLine.take(toFloat(result) - value.value, value), columnLines[c].take(toFloat(result) - value.value, value);
      if (hasUnevenColumns) columnLines[c].steps += int8StepVariance(row, column);
    }
    // A sampled row is complete, whether its columns are sampled or not.
    for (std::int64_t j = 0; j < n; ++j) {
      const Bf16 result = got[static_cast<std::size_t>(j)];
      if (result.bits == kPoison16) judge.fault("out[{}, {}] was not written", row.index, j);
      if (!std::isfinite(toFloat(result))) judge.fault("out[{}, {}] is {}", row.index, j, toFloat(result));
    }
    if (!structured && rowLine.exceeds(limit)) {
      judge.fault("row {} of out has a normalized error of {:.3g}, the limit is {:.3g}", row.index, rowLine.relative(),
                  limit);
    }
  }
  for (std::size_t c = 0; c < columnLines.size(); ++c) {
    if (!structured && columnLines[c].exceeds(limit)) {
      judge.fault("column {} of out has a normalized error of {:.3g}, the limit is {:.3g}", samples.columns[c].index,
                  columnLines[c].relative(), limit);
    }
  }
  const double nrmse = judge.finish().nrmse;
  // Constant rows give rows of the output that are multiples of one another: only its columns, too few for a mean
  // square to be sharp, are independent samples.
  const bool constant = expected.options().activations == Activations::kConstantRows;
  const double slack = constant ? sampleSlack(static_cast<std::int64_t>(samples.columns.size())) : 1;
  if (judge.count() >= kFewestForStatistics && !(nrmse <= limit * slack)) {
    judge.fault("the normalized error is {:.4g}, the limit is {:.4g}", nrmse, limit * slack);
  }
  return judge.finish();
}

Result<void> checkLogSumExp(const Expectation& expected, const AttentionSamples::Row& row, const ReadOutput& read,
                            Judge& judge) {
  const AttentionShape& shape = expected.problem().attention;
  const std::int64_t index = (row.batch * shape.qHeads + row.head) * shape.qLen + row.row;
  float got = 0;
  TW_TRY(read(Role::kLse, expected.lseExtent().origin + index * 4, std::as_writable_bytes(std::span(&got, 1))));
  const auto place = [&] { return fmt::format("lse[{}, {}, {}]", row.batch, row.head, row.row); };
  if (std::bit_cast<std::uint32_t>(got) == kPoison32) {
    judge.fault("{} was not written", place());
  } else if (row.visible == 0) {
    if (got != row.logSumExp) judge.fault("{} is {}, must be -inf for a row that sees no key", place(), got);
  } else if (!(std::fabs(got - row.logSumExp) <= logSumExpBound(row))) {
    judge.fault("{} is {:.7g}, expected {:.7g}, allowed error {:.3g}", place(), got, row.logSumExp,
                logSumExpBound(row));
  }
  return {};
}

/// FA3's rule: the largest error is at most twice that of the plain BF16 computation plus twice what rounding does to
/// value + 0.3 - 0.3. Rows are grouped by the octave of their visible keys, for the errors shrink with these.
struct Fa3Group {
  double error = 0, plain = 0, rounding = 0;

  void take(double got, const AttentionSamples::Value& value) {
    const float shifted = toFloat(toBf16(static_cast<float>(value.value) + 0.3F));
    error = std::max(error, std::fabs(got - value.value)),
    plain = std::max(plain, std::fabs(value.plain - value.value));
    rounding = std::max(rounding, std::fabs(toFloat(toBf16(shifted - 0.3F)) - value.value));
  }
  double limit() const { return 2 * plain + 2 * rounding; }
};

Result<Verdict> checkAttention(const Expectation& expected, const ReadOutput& read) {
  const AttentionSamples& samples = expected.attention();
  const AttentionShape& shape = expected.problem().attention;
  const Strides& strides = expected.outStrides();
  const bool structured = isStructured(expected.options());
  Judge judge;
  std::map<int, Fa3Group> groups;
  for (std::size_t r = 0; r < samples.rows.size(); ++r) {
    const AttentionSamples::Row& row = samples.rows[r];
    const std::int64_t first = row.batch * strides.batch + row.head * strides.head + row.row * strides.row;
    const std::vector<Bf16> got = TW_TRY(readStrided(read, expected.outExtent(), first, shape.headDim, strides.column));
    Fa3Group& group = groups[static_cast<int>(std::bit_width(static_cast<std::uint64_t>(row.visible)))];
    for (std::size_t c = 0; c < got.size(); ++c) {
      const AttentionSamples::Value& value = samples.values[r * got.size() + c];
      judge.take(got[c], value.value, attentionBound(structured, row, value), [&] {
        return fmt::format("out[{}, {}, {}, {}] (sees {} keys)", row.batch, row.head, row.row, c, row.visible);
      });
      group.take(toFloat(got[c]), value);
    }
    if (shape.logSumExp) TW_TRY(checkLogSumExp(expected, row, read, judge));
  }
  for (const auto& [octave, group] : groups) {
    if (group.error > group.limit()) {
      judge.fault("the largest error among rows that see about 2^{} keys is {:.3g}, twice that of plain BF16 is {:.3g}",
                  octave - 1, group.error, group.limit());
    }
  }
  return judge.finish();
}

/// Walks every element of an output buffer: each must be written and no NaN, nor infinite where that is no result, and
/// nothing else may be written.
template <typename Word>
class WholeScan {
 public:
  WholeScan(const Extent& extent, std::string name, bool mayBeInfinite)
      : extent_(extent), name_(std::move(name)), mayBeInfinite_(mayBeInfinite) {}

  Result<void> load(const ReadOutput& read, Role role) {
    buffer_ = TW_TRY(HostBuffer::create(extent_.bytes));
    return read(role, 0, buffer_.span());
  }

  /// Checks the element and marks it as seen by poisoning it again.
  template <typename Place>
  void visit(std::int64_t index, Verdict& verdict, Place place) {
    Word word = 0;
    std::byte* at = buffer_.data() + extent_.origin + index * static_cast<std::int64_t>(sizeof(Word));
    std::memcpy(&word, at, sizeof(Word));
    std::memset(at, 0xff, sizeof(Word));
    constexpr Word kExponent = sizeof(Word) == 2 ? Word{0x7f80} : static_cast<Word>(0x7f800000);
    constexpr Word kMagnitude = std::numeric_limits<Word>::max() / 2;
    const Word magnitude = word & kMagnitude;
    if (!verdict.ok || magnitude < kExponent || (magnitude == kExponent && mayBeInfinite_)) return;
    verdict.ok = false;
    verdict.what = fmt::format("{}[{}] {}", name_, place(),
                               word == std::numeric_limits<Word>::max() ? "was not written"
                               : magnitude == kExponent                 ? "is infinite"
                                                                        : "is NaN");
  }

  /// After all elements: what is left must be untouched.
  void finish(Verdict& verdict) const {
    const std::span<const std::byte> bytes = buffer_.span();
    const auto touched = std::ranges::find_if(bytes, [](std::byte byte) { return byte != std::byte{0xff}; });
    if (touched == bytes.end() || !verdict.ok) return;
    verdict.ok = false;
    verdict.what = fmt::format("a byte outside {}'s elements was written, {} bytes from element 0", name_,
                               touched - bytes.begin() - extent_.origin);
  }

 private:
  Extent extent_;
  std::string name_;
  bool mayBeInfinite_;
  HostBuffer buffer_;
};

Result<Verdict> scanWhole(const Expectation& expected, const ReadOutput& read, Verdict verdict) {
  const Strides& strides = expected.outStrides();
  WholeScan<std::uint16_t> out(expected.outExtent(), "out", false);
  TW_TRY(out.load(read, Role::kOut));
  if (expected.problem().isLinear()) {
    const LinearShape& shape = expected.problem().linear;
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        out.visit(i * strides.row + j, verdict, [&] { return fmt::format("{}, {}", i, j); });
      }
    }
  } else {
    const AttentionShape& shape = expected.problem().attention;
    for (std::int64_t i = 0; i < shape.batch * shape.qHeads * shape.qLen; ++i) {
      const std::int64_t b = i / (shape.qHeads * shape.qLen), h = i / shape.qLen % shape.qHeads, l = i % shape.qLen;
      for (std::int64_t c = 0; c < shape.headDim; ++c) {
        out.visit(b * strides.batch + h * strides.head + l * strides.row + c * strides.column, verdict,
                  [&] { return fmt::format("{}, {}, {}, {}", b, h, l, c); });
      }
    }
    if (shape.logSumExp) {
      WholeScan<std::uint32_t> lse(expected.lseExtent(), "lse", true);
      TW_TRY(lse.load(read, Role::kLse));
      for (std::int64_t i = 0; i < shape.batch * shape.qHeads * shape.qLen; ++i) {
        lse.visit(i, verdict, [&] { return fmt::format("{}", i); });
      }
      lse.finish(verdict);
    }
  }
  out.finish(verdict);
  return verdict;
}

}  // namespace

std::vector<std::int64_t> pickIndices(std::int64_t count, std::int64_t wanted, std::uint64_t seed) {
  std::vector<std::int64_t> picks;
  if (count <= wanted) {
    for (std::int64_t i = 0; i < count; ++i) picks.push_back(i);
    return picks;
  }
  const auto add = [&](std::int64_t index) {
    const auto open = static_cast<std::int64_t>(picks.size()) < wanted;
    if (open && index >= 0 && index < count && std::ranges::find(picks, index) == picks.end()) picks.push_back(index);
  };
  for (const std::int64_t edge :
       {0, -1, 1, 64, 63, 128, 127, -2, 8, 256, 16, 192, 32, 7, -33, 255, -65, -129, 15, 31}) {
    if (static_cast<std::int64_t>(picks.size()) < (wanted + 1) / 2) add(edge < 0 ? count + edge : edge);
  }
  Random random(seed);
  while (static_cast<std::int64_t>(picks.size()) < wanted) add(random.below(count));
  std::ranges::sort(picks);
  return picks;
}

Expectation Expectation::compute(const HostOperands& operands, const SampleOptions& options) {
  Expectation expected;
  expected.problem_ = operands.problem(), expected.options_ = operands.options();
  expected.outExtent_ = operands.extent(Role::kOut), expected.lseExtent_ = operands.extent(Role::kLse);
  if (operands.problem().isLinear()) {
    expected.outStrides_ = {.row = operands.inputs().linear.outStride};
    expected.linear_ = expectLinear(operands, options);
  } else {
    expected.outStrides_ = operands.inputs().attention.outStride;
    expected.attention_ = expectAttention(operands, options);
  }
  return expected;
}

Result<Verdict> checkSamples(const Expectation& expected, Precision precision, const ReadOutput& read) {
  return expected.problem().isLinear() ? checkLinear(expected, precision, read) : checkAttention(expected, read);
}

Result<Verdict> checkWhole(const Expectation& expected, Precision precision, const ReadOutput& read) {
  const Verdict sampled = TW_TRY(checkSamples(expected, precision, read));
  return scanWhole(expected, read, sampled);
}

}  // namespace tilewright::reference
