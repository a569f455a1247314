// The checks of the conformance suites and of the tuner: right results pass, and each rule catches the error planted
// against it.
#include "reference/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

#include "reference/expectation.h"
#include "reference/random.h"
#include "reference/tolerance.h"
#include "tests/reference/plain_result.h"

namespace tilewright::reference {
namespace {

using testing::HasSubstr;

Problem linear(Operation operation, std::int64_t n, std::int64_t k, std::int64_t m, bool bias = false) {
  return {.operation = operation, .linear = {.n = n, .k = k, .m = m, .bias = bias}};
}

Problem attention(std::int64_t batch, std::int64_t qHeads, std::int64_t kvHeads, std::int64_t headDim,
                  std::int64_t qLen, std::int64_t kvLen, bool causal) {
  return {.operation = Operation::kAttention,
          .attention = {.batch = batch,
                        .qHeads = qHeads,
                        .kvHeads = kvHeads,
                        .headDim = headDim,
                        .qLen = qLen,
                        .kvLen = kvLen,
                        .causal = causal,
                        .logSumExp = true}};
}

/// A right result, changed by `plant`, judged.
Verdict judge(const Problem& problem, const OperandOptions& options,
              const std::function<void(PlainResult&)>& plant = {}, const SampleOptions& sampling = {},
              Precision precision = Precision::kExact) {
  const HostOperands operands = makeOperands(problem, options).value();
  PlainResult result(operands);
  if (plant) plant(result);
  return checkWhole(Expectation::compute(operands, sampling), precision, result.reader()).value();
}

TEST(Check, acceptsPlainLinearResults) {
  for (const Operation operation : {Operation::kLinear, Operation::kQ4kLinear}) {
    for (const auto activations : {Activations::kGaussian, Activations::kOutliers, Activations::kZeroRows,
                                   Activations::kConstantRows, Activations::kExtremes, Activations::kLarge}) {
      for (const auto weights : {Weights::kGaussian, Weights::kAnyBits, Weights::kOnlyMins, Weights::kNegativeSteps}) {
        const Verdict verdict = judge(linear(operation, 37, 512, 21, true),
                                      {.activations = activations, .weights = weights, .xPadding = 3, .outPadding = 5});
        EXPECT_TRUE(verdict.ok) << verdict.what << " activations " << static_cast<int>(activations) << " weights "
                                << static_cast<int>(weights);
        EXPECT_GT(verdict.nrmse, 0);
      }
    }
  }
}

TEST(Check, acceptsPlainAttentionResults) {
  for (const bool causal : {false, true}) {
    for (const auto scores : {Scores::kGaussian, Scores::kDeeplyNegative}) {
      const Verdict verdict = judge(attention(3, 4, 2, 40, 19, 50, causal), {.baseOffset = 1,
                                                                             .scores = scores,
                                                                             .capacity = 64,
                                                                             .kvLens = {50, 0, 9},
                                                                             .qStrides = rowMajorStrides(4, 19, 40)});
      EXPECT_TRUE(verdict.ok) << verdict.what << " causal " << causal;
    }
  }
}

TEST(Check, acceptsEmptyProblems) {
  EXPECT_TRUE(judge(linear(Operation::kLinear, 8, 16, 0), {}).ok);
  EXPECT_TRUE(judge(attention(0, 4, 2, 64, 3, 5, true), {}).ok);
  EXPECT_TRUE(judge(attention(2, 4, 2, 64, 0, 5, true), {}).ok);
  EXPECT_TRUE(judge(attention(2, 4, 2, 64, 3, 0, true), {}).ok);
}

TEST(Check, catchesEachErrorPlantedIntoALinearResult) {
  const Problem problem = linear(Operation::kQ4kLinear, 300, 512, 70);
  const OperandOptions options{.outPadding = 4};
  const std::int64_t stride = 304;
  struct Case {
    std::string_view name, what;
    std::function<void(PlainResult&)> plant;
  };
  for (const auto& [name, what, plant] : {
           Case{"not_written", "out[69, 299] was not written",
                [&](PlainResult& r) { r.out(69 * stride + 299).bits = 0xffff; }},
           Case{"nan", "out[3, 5] is NaN", [&](PlainResult& r) { r.out(3 * stride + 5).bits = 0x7fc0; }},
           Case{"infinite", "out[3, 5] is inf", [&](PlainResult& r) { r.out(3 * stride + 5).bits = 0x7f80; }},
           Case{"minus_infinite", "out[69, 299] is -inf",
                [&](PlainResult& r) { r.out(69 * stride + 299).bits = 0xff80; }},
           Case{"wrong_sign", "out[0, 0] is", [&](PlainResult& r) { r.out(0).bits ^= 0x8000; }},
           Case{"gap_written", "outside out's elements", [&](PlainResult& r) { r.out(2 * stride - 1) = toBf16(0); }},
           Case{"before_written", "-2 bytes from element 0", [&](PlainResult& r) { r.out(-1) = toBf16(0); }},
           Case{"after_written", "outside out's elements", [&](PlainResult& r) { r.out(70 * stride) = toBf16(0); }},
           Case{"rows_swapped", "out[",
                [&](PlainResult& r) {
                  for (int j = 0; j < 300; ++j) std::swap(r.out(63 * stride + j), r.out(64 * stride + j));
                }},
           Case{"all_scaled", "normalized error",
                [&](PlainResult& r) {
                  // 0.5 %: within each output's own bound, but not over all of them.
                  for (int i = 0; i < 70; ++i) {
                    for (int j = 0; j < 300; ++j) {
                      Bf16& out = r.out(i * stride + j);
                      out = toBf16(toFloat(out) * 1.005F);
                    }
                  }
                }},
           Case{"column_scaled", "column 299 of out has a normalized error",
                [&](PlainResult& r) {
                  for (int i = 0; i < 70; ++i) {
                    Bf16& out = r.out(i * stride + 299);
                    out = toBf16(toFloat(out) * 1.008F);
                  }
                }},
       }) {
    const Verdict verdict = judge(problem, options, plant);
    EXPECT_FALSE(verdict.ok) << name;
    EXPECT_THAT(verdict.what, HasSubstr(std::string(what))) << name;
  }
}

TEST(Check, catchesOneMissingSuperBlockOrSubBlock) {
  // Leaves out `count` products from `first` on of every output: a kernel that skips the end of k.
  for (const auto& [first, count] : {std::pair{256, 256}, std::pair{480, 32}}) {
    const Problem problem = linear(Operation::kLinear, 40, 512, 33);
    const HostOperands operands = makeOperands(problem, {}).value();
    PlainResult result(operands);
    const LinearOperands inputs = operands.inputs().linear;
    for (int i = 0; i < 33; ++i) {
      for (int j = 0; j < 40; ++j) {
        float missing = 0;
        for (int c = first; c < first + count; ++c) {
          missing += toFloat(static_cast<const Bf16*>(inputs.x)[i * 512 + c]) *
                     toFloat(static_cast<const Bf16*>(inputs.w)[j * 512 + c]);
        }
        result.out(i * 40 + j) = toBf16(toFloat(result.out(i * 40 + j)) - missing);
      }
    }
    for (const Precision precision : {Precision::kExact, Precision::kInt8, Precision::kFp8}) {
      const Verdict verdict = checkSamples(Expectation::compute(operands, {}), precision, result.reader()).value();
      EXPECT_FALSE(verdict.ok) << count << " products, precision " << precisionName(precision);
    }
  }
}

TEST(Check, catchesEachErrorPlantedIntoAttention) {
  const Problem problem = attention(2, 4, 2, 64, 130, 70, true);  // the first 60 rows see nothing
  const OperandOptions options{.outStrides = rowMajorStrides(4, 130, 64, 2)};
  const Strides strides = *options.outStrides;
  const auto index = [&](std::int64_t b, std::int64_t h, std::int64_t l) {
    return b * strides.batch + h * strides.head + l * strides.row;
  };
  struct Case {
    std::string_view name, what;
    std::function<void(PlainResult&)> plant;
  };
  for (const auto& [name, what, plant] : {
           Case{"not_written", "out[1, 3, 129, 63]",
                [&](PlainResult& r) { r.out(index(1, 3, 129) + 63).bits = 0xffff; }},
           Case{"nan", "is NaN", [&](PlainResult& r) { r.out(index(0, 0, 100)).bits = 0x7fff; }},
           Case{"empty_row_not_zero", "out[0, 1, 59, 7] (sees 0 keys)",
                [&](PlainResult& r) { r.out(index(0, 1, 59) + 7).bits = 1; }},
           Case{"empty_row_lse", "must be -inf", [&](PlainResult& r) { r.lse(0) = -1e30F; }},
           Case{"lse_base_2", "lse[1, 3, 129]", [&](PlainResult& r) { r.lse(2 * 4 * 130 - 1) *= 1.442695F; }},
           Case{"lse_off_by_2e-3", "lse[1, 3, 129]", [&](PlainResult& r) { r.lse(2 * 4 * 130 - 1) += 2e-3F; }},
           Case{"lse_not_written", "was not written", [&](PlainResult& r) { std::memset(&r.lse(77 + 100), 0xff, 4); }},
           Case{"gap_written", "outside out's elements",
                [&](PlainResult& r) { r.out(index(0, 0, 100) + 64) = toBf16(0); }},
           Case{"off_by_one_mask", "out[0, 0, 61",
                [&](PlainResult& r) {
                  // Row 61 sees two keys; take row 60's result, which sees one.
                  for (int c = 0; c < 64; ++c) r.out(index(0, 0, 61) + c) = r.out(index(0, 0, 60) + c);
                }},
           Case{"last_bits_lost", "out[",
                [&](PlainResult& r) {
                  // Five significant bits: an FP8 computation must not pass as BF16.
                  for (int l = 60; l < 130; ++l) {
                    for (int c = 0; c < 64; ++c) r.out(index(1, 2, l) + c).bits &= 0xfff8;
                  }
                }},
       }) {
    const Verdict verdict = judge(problem, options, plant);
    EXPECT_FALSE(verdict.ok) << name;
    EXPECT_THAT(verdict.what, HasSubstr(std::string(what))) << name;
  }
}

TEST(Check, appliesFa3sRuleToTheWholeResult) {
  // One key per row: the output is V itself, and plain BF16 has no error, so the rule allows rounding alone.
  const Problem problem = attention(1, 1, 1, 64, 1, 1, false);
  const Verdict verdict = judge(problem, {}, [](PlainResult& r) {
    for (int c = 0; c < 64; ++c) r.out(c) = toBf16(toFloat(r.out(c)) * 1.04F);
  });
  EXPECT_FALSE(verdict.ok);
}

TEST(Check, samplesLargeProblemsAtTheirEdges) {
  const Problem problem = linear(Operation::kLinear, 1000, 64, 1000);
  const SampleOptions sampling{.budget = 1e5};
  const HostOperands operands = makeOperands(problem, {}).value();
  const Expectation expected = Expectation::compute(operands, sampling);
  EXPECT_LT(expected.linear().values.size(), 5000U);
  for (const std::int64_t edge : {0, 1, 63, 64, 127, 128, 998, 999}) {
    EXPECT_EQ(std::ranges::count(expected.linear().rows, edge, &LinearSamples::Row::index), 1) << edge;
    EXPECT_EQ(std::ranges::count(expected.linear().columns, edge, &LinearSamples::Column::index), 1) << edge;
  }
  EXPECT_TRUE(judge(problem, {}, {}, sampling).ok);
  EXPECT_FALSE(judge(problem, {}, [](PlainResult& r) { r.out(999 * 1000 + 999).bits ^= 0x8000; }, sampling).ok);
}

TEST(Check, lossyPrecisionsAcceptTheirOwnErrorAndNoMore) {
  // Errors of 3 % (as E4M3 makes) pass as fp8, not as int8 nor exact.
  const auto noise = [](PlainResult& r) {
    std::uint32_t state = 1;
    for (int i = 0; i < 64 * 200; ++i) {
      state = state * 1664525 + 1013904223;
      const float factor = 1 + 0.052F * (static_cast<float>(state >> 8) / (1 << 23) - 1);  // uniform, deviation 3 %
      r.out(i) = toBf16(toFloat(r.out(i)) * factor);
    }
  };
  const Problem problem = linear(Operation::kQ4kLinear, 200, 256, 64);
  EXPECT_TRUE(judge(problem, {}, noise, {}, Precision::kFp8).ok);
  EXPECT_FALSE(judge(problem, {}, noise, {}, Precision::kInt8).ok);
  EXPECT_FALSE(judge(problem, {}, noise, {}, Precision::kExact).ok);
}

TEST(Check, findsInfinitiesBetweenTheSamples) {
  const Problem problem = linear(Operation::kLinear, 400, 64, 400);
  const SampleOptions sampling{.budget = 1e5};
  const HostOperands operands = makeOperands(problem, {}).value();
  const Expectation expected = Expectation::compute(operands, sampling);
  std::int64_t unsampled = 200;
  while (std::ranges::count(expected.linear().rows, unsampled, &LinearSamples::Row::index) > 0) ++unsampled;
  const Verdict verdict =
      judge(problem, {}, [&](PlainResult& r) { r.out(unsampled * 400 + 7).bits = 0xff80; }, sampling);
  EXPECT_EQ(verdict.what, fmt::format("out[{}, 7] is infinite", unsampled));
}

/// Replaces the result of a problem by what weights give that are rounded to `levels` steps on each side of zero.
void roundWeights(const HostOperands& operands, float levels, PlainResult& result) {
  const LinearShape& shape = operands.problem().linear;
  const LinearOperands inputs = operands.inputs().linear;
  for (std::int64_t j = 0; j < shape.n; ++j) {
    std::vector<float> w(static_cast<std::size_t>(shape.k));
    for (std::int64_t i = 0; i < shape.k; i += 256) {
      Q4kBlock block;
      std::memcpy(&block, static_cast<const std::byte*>(inputs.w) + (j * shape.k + i) / 256 * 144, 144);
      dequantize(block, std::span(w).subspan(static_cast<std::size_t>(i)).first<256>());
    }
    float largest = 0;
    for (const float weight : w) largest = std::max(largest, std::fabs(weight));
    for (float& weight : w) weight = std::round(weight / largest * levels) * largest / levels;
    for (std::int64_t i = 0; i < shape.m; ++i) {
      const auto* x = static_cast<const Bf16*>(inputs.x) + i * inputs.xStride;
      double sum = 0;
      for (std::int64_t c = 0; c < shape.k; ++c) sum += double{w[static_cast<std::size_t>(c)]} * toFloat(x[c]);
      result.out(i * shape.n + j) = toBf16(static_cast<float>(sum));
    }
  }
}

TEST(Check, constantRowsMayErrAsEqualCodesDoAndNoMore) {
  // Rounded to 8 bits, weights give what int8 allows for constant rows, and more than it allows elsewhere; to 7 bits,
  // more than either.
  const Problem problem = linear(Operation::kQ4kLinear, 600, 2048, 4);
  const HostOperands operands = makeOperands(problem, {.activations = Activations::kConstantRows}).value();
  const Expectation expected = Expectation::compute(operands, {});
  PlainResult result(operands);
  roundWeights(operands, 127, result);
  const Verdict eight = checkSamples(expected, Precision::kInt8, result.reader()).value();
  EXPECT_TRUE(eight.ok) << eight.what;
  EXPECT_GT(eight.nrmse, linearNrmseLimit(problem, Precision::kInt8, {}));
  roundWeights(operands, 63, result);
  EXPECT_THAT(checkSamples(expected, Precision::kInt8, result.reader()).value().what, HasSubstr("normalized error"));
}

TEST(Check, columnsOfUnevenWeightsMayErrByTheirStepAndNoMore) {
  // Rows of W that are small where the outliers are err by more than 2 % when rounded to 8 bits, but not to 6.
  const Problem problem = linear(Operation::kQ4kLinear, 272, 1024, 40);
  const HostOperands operands =
      makeOperands(problem, {.activations = Activations::kOutliers, .weights = Weights::kAnyBits}).value();
  const Expectation expected = Expectation::compute(operands, {});
  PlainResult result(operands);
  roundWeights(operands, 127, result);
  const Verdict eight = checkSamples(expected, Precision::kInt8, result.reader()).value();
  EXPECT_TRUE(eight.ok) << eight.what;
  EXPECT_LT(eight.nrmse, linearNrmseLimit(problem, Precision::kInt8, {.activations = Activations::kOutliers}));
  roundWeights(operands, 31, result);
  EXPECT_THAT(checkSamples(expected, Precision::kInt8, result.reader()).value().what, HasSubstr("normalized error"));
}

TEST(Tolerance, givesMinsTheirShareOfTheEnergy) {
  // Every second super-block of such weights has d = 0.
  const Problem problem = linear(Operation::kQ4kLinear, 256, 4096, 1);
  const HostOperands operands = makeOperands(problem, {.weights = Weights::kOnlyMins}).value();
  const auto* blocks = static_cast<const std::byte*>(operands.inputs().linear.w);
  double mins = 0, all = 0;
  for (std::int64_t b = 0; b < 256 * 16; ++b) {
    Q4kBlock block;
    std::memcpy(&block, blocks + b * 144, 144);
    std::array<float, Q4kBlock::kWeights> weights;
    dequantize(block, weights);
    double energy = 0;
    for (const float weight : weights) energy += double{weight} * weight;
    all += energy;
    if ((block.d.bits & 0x7fff) == 0) mins += energy;
  }
  EXPECT_NEAR(mins / all, kMinsEnergy, 0.02);
  const double limit = linearNrmseLimit(problem, Precision::kFp8, {.weights = Weights::kOnlyMins});
  EXPECT_GT(limit, 0.04);
  EXPECT_LT(limit, std::hypot(0.04 / std::numbers::sqrt2, 0x1p-4 / std::numbers::sqrt3));  // as if all were mins
}

TEST(Check, theLimitItselfIsNotExceeded) {
  // 1.45 % for 1.4, estimated from 8000 outputs: a sample's size is no excuse.
  const Problem problem = linear(Operation::kQ4kLinear, 200, 1024, 40);
  const HostOperands operands = makeOperands(problem).value();
  const Expectation expected = Expectation::compute(operands, {});
  PlainResult result(operands);
  const auto err = [&](double share) {
    Random random(5);
    for (const LinearSamples::Value& value : expected.linear().values) {
      const auto at = &value - expected.linear().values.data();
      result.out(at) = toBf16(static_cast<float>(value.value + share * value.energy * random.gaussian()));
    }
    return checkSamples(expected, Precision::kInt8, result.reader()).value();
  };
  EXPECT_TRUE(err(0.0135).ok);
  EXPECT_THAT(err(0.0145).what, HasSubstr("the normalized error is"));
}

TEST(Tolerance, growsOnConstantRowsAsEqualCodesOfASubBlockDo) {
  // Codes and values of Gaussian weights, counted.
  Random random(3);
  double pairs = 0, codes = 0, valuePairs = 0, values = 0;
  for (int b = 0; b < 1000; ++b) {
    std::array<float, Q4kBlock::kWeights> weights;
    for (float& weight : weights) weight = static_cast<float>(random.gaussian());
    dequantize(quantize(weights), weights);
    for (int j = 0; j < 8; ++j) {
      std::map<float, double> counts;
      for (int i = 0; i < 32; ++i) ++counts[weights[static_cast<std::size_t>(32 * j + i)]];
      for (const auto& [value, count] : counts) {
        pairs += count * count, codes += count;
        valuePairs += count * count * value * value, values += count * value * value;
      }
    }
  }
  EXPECT_NEAR(equalCodesGrowth(Precision::kInt8), std::sqrt(pairs / codes), 0.05);
  EXPECT_NEAR(equalCodesGrowth(Precision::kFp8), std::sqrt(valuePairs / values), 0.07);
  // Where nothing is constant, the specification's limits stand.
  const Problem problem = linear(Operation::kQ4kLinear, 600, 2048, 4);
  EXPECT_EQ(linearNrmseLimit(problem, Precision::kInt8, {}), 0.014);
  EXPECT_EQ(linearNrmseLimit(problem, Precision::kInt8, {.activations = Activations::kOutliers}), 0.02);
  EXPECT_EQ(linearNrmseLimit(problem, Precision::kFp8, {}), 0.04);
  EXPECT_DOUBLE_EQ(linearNrmseLimit(problem, Precision::kExact, {}), 0.003);
}

TEST(Check, readingErrorsAreHandedOn) {
  const HostOperands operands = makeOperands(linear(Operation::kLinear, 8, 16, 2)).value();
  const auto broken = [](Role, std::int64_t, std::span<std::byte>) -> Result<void> {
    return fail(ErrorCode::kDevice, "cannot read");
  };
  const auto verdict = checkSamples(Expectation::compute(operands, {}), Precision::kExact, broken);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, ErrorCode::kDevice);
}

TEST(PickIndices, takesAllOrEdgesAndRandomOnes) {
  EXPECT_THAT(pickIndices(4, 10, 1), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(pickIndices(0, 10, 1).empty());
  const auto picks = pickIndices(1'000'000, 50, 1);
  EXPECT_EQ(picks.size(), 50U);
  EXPECT_TRUE(std::ranges::is_sorted(picks));
  EXPECT_EQ(std::ranges::adjacent_find(picks), picks.end());
  EXPECT_EQ(picks.back(), 999'999);
  EXPECT_NE(picks, pickIndices(1'000'000, 50, 2));
}

}  // namespace
}  // namespace tilewright::reference
