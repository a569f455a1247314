// Operands: values, layout, poison.
#include "reference/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/dtype.h"
#include "base/q4k.h"

namespace tilewright::reference {
namespace {

Problem linear(Operation operation, std::int64_t n, std::int64_t k, std::int64_t m) {
  return {.operation = operation, .linear = {.n = n, .k = k, .m = m}};
}

float at(const void* base, std::int64_t index) {
  return toFloat(static_cast<const Bf16*>(base)[index]);
}

TEST(Operands, equalSeedsGiveEqualBytes) {
  const Problem problem = linear(Operation::kQ4kLinear, 8, 512, 5);
  const auto bytes = [&](std::uint64_t seed, Role role) {
    const HostOperands operands = makeOperands(problem, {.seed = seed}).value();
    const auto span = operands.buffer(role).span();
    return std::vector<std::byte>(span.begin(), span.end());
  };
  for (const Role role : {Role::kX, Role::kW}) {
    EXPECT_EQ(bytes(1, role), bytes(1, role));
    EXPECT_NE(bytes(1, role), bytes(2, role));
  }
}

TEST(Operands, gapsAndGuardsReadAsNaN) {
  const HostOperands operands = makeOperands(linear(Operation::kLinear, 8, 16, 3), {.xPadding = 5}).value();
  const LinearOperands inputs = operands.inputs().linear;
  EXPECT_EQ(inputs.xStride, 21);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 21 && i * 21 + j < 2 * 21 + 16; ++j) EXPECT_EQ(std::isnan(at(inputs.x, i * 21 + j)), j >= 16);
  }
  EXPECT_TRUE(std::isnan(at(inputs.x, -1)));
  EXPECT_TRUE(std::isnan(at(inputs.x, 2 * 21 + 16)));
  EXPECT_TRUE(std::isnan(at(inputs.w, 8 * 16)));
}

TEST(Operands, keysBeyondTheKvLengthAreNaN) {
  const Problem problem{.operation = Operation::kAttention,
                        .attention = {.batch = 3, .qHeads = 2, .kvHeads = 1, .headDim = 8, .qLen = 2, .kvLen = 6}};
  const HostOperands operands = makeOperands(problem, {.capacity = 9, .kvLens = {4, -5, 100}}).value();
  const AttentionOperands inputs = operands.inputs().attention;
  EXPECT_EQ(operands.kvLength(0), 4);
  EXPECT_EQ(operands.kvLength(1), 0);
  EXPECT_EQ(operands.kvLength(2), 9);
  for (int b = 0; b < 3; ++b) {
    for (int l = 0; l < 9; ++l) {
      const auto index = b * inputs.kStride.batch + l * inputs.kStride.row;
      EXPECT_EQ(std::isnan(at(inputs.k, index)), l >= operands.kvLength(b)) << b << " " << l;
      EXPECT_EQ(std::isnan(at(inputs.v, index)), l >= operands.kvLength(b)) << b << " " << l;
    }
  }
  EXPECT_EQ(inputs.kvLen[2], 100);
}

TEST(Operands, basesAreAlignedUnlessAskedOtherwise) {
  const auto address = [](std::int64_t offset) {
    return reinterpret_cast<std::uintptr_t>(
        makeOperands(linear(Operation::kLinear, 8, 16, 3), {.baseOffset = offset}).value().inputs().linear.x);
  };
  EXPECT_EQ(address(0) % 256, 0U);
  EXPECT_EQ(address(1) % 256, 2U);
}

TEST(Operands, activationsAreWhatTheirNamesSay) {
  const std::int64_t m = 64, k = 1000;
  const auto x = [&](Activations activations) {
    return makeOperands(linear(Operation::kLinear, 8, k, m), {.activations = activations}).value();
  };
  const auto deviation = [&](const HostOperands& operands, std::int64_t channel) {
    double squares = 0;
    for (std::int64_t i = 0; i < m; ++i) squares += std::pow(at(operands.inputs().linear.x, i * k + channel), 2);
    return std::sqrt(squares / static_cast<double>(m));
  };
  const HostOperands gaussian = x(Activations::kGaussian), outliers = x(Activations::kOutliers);
  int wide = 0;
  for (std::int64_t c = 0; c < k; ++c) {
    EXPECT_NEAR(deviation(gaussian, c), 1, 0.6);  // six standard errors of 1 / sqrt(2 m)
    wide += deviation(outliers, c) > 10 ? 1 : 0;
  }
  EXPECT_GE(wide, 4);
  EXPECT_LE(wide, 5);

  const HostOperands extremes = x(Activations::kExtremes);
  for (std::int64_t i = 0; i < m; ++i) {
    float largest = -1e9F, smallest = 1e9F;
    for (std::int64_t c = 0; c < k; ++c) {
      largest = std::max(largest, at(extremes.inputs().linear.x, i * k + c));
      smallest = std::min(smallest, at(extremes.inputs().linear.x, i * k + c));
    }
    EXPECT_EQ(largest, 127);
    EXPECT_GE(smallest, -126);
  }
  const HostOperands zeros = x(Activations::kZeroRows);
  EXPECT_EQ(at(zeros.inputs().linear.x, 5), 0);
  EXPECT_NE(at(zeros.inputs().linear.x, k + 5), 0);
}

TEST(Operands, q4kWeightsHaveTheirDeviation) {
  for (const auto weights : {Weights::kGaussian, Weights::kAnyBits}) {
    for (const double scale : {1e-3, 1.0, 100.0}) {
      const HostOperands operands =
          makeOperands(linear(Operation::kQ4kLinear, 16, 1024, 1), {.weights = weights, .weightScale = scale}).value();
      double squares = 0;
      for (int b = 0; b < 64; ++b) {
        std::array<float, 256> values;
        dequantize(static_cast<const Q4kBlock*>(operands.inputs().linear.w)[b], values);
        for (const float value : values) squares += value * value;
      }
      const double deviation = std::sqrt(squares / (64 * 256)) / (0.02 * scale);
      EXPECT_GT(deviation, 0.5) << scale;
      EXPECT_LT(deviation, 2) << scale;
    }
  }
}

TEST(Operands, refusesWhatDoesNotFit) {
  Problem problem{.operation = Operation::kAttention,
                  .attention = {.batch = 3, .qHeads = 2, .kvHeads = 1, .headDim = 8, .qLen = 2, .kvLen = 6}};
  EXPECT_THAT(makeOperands(problem, {.kvLens = {1}}).error().message,
              testing::HasSubstr("1 kv lengths for a batch of 3"));
  problem.attention.headDim = 7;
  EXPECT_FALSE(makeOperands(problem));
}

}  // namespace
}  // namespace tilewright::reference
