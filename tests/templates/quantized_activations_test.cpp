// Activations that are quantized ahead of calls: the layout follows from format, m and k alone, and calls that are
// given some launch no quantization. That their bits are right is the conformance suite's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "templates/q4k_linear/fused_activations.h"
#include "templates/template.h"
#include "tests/templates/lossy_plans.h"

namespace tilewright {
namespace {

using testing::IsEmpty;
using testing::Not;

/// Calls `body(template, problem, configuration)` on everything that takes activations.
template <typename Body>
void forEachPlan(const LinearShape& shape, Body&& body) {
  forEachLossyPlan(shape, [&](const Template& each, const Problem& problem, const Configuration& configuration) {
    if (!each.activationFormat(problem, device(), configuration).empty()) body(each, problem, configuration);
  });
}

Operands operandsOf(const LinearShape& shape) {
  return {
      .linear = {
          .x = at(0x1000), .xStride = shape.k, .w = at(0x2000), .out = at(0x3000), .outStride = (shape.n + 7) / 8 * 8}};
}

/// The geometry and arguments of launches, as bytes.
std::string textOf(const LaunchList& launches) {
  std::string text;
  for (const Launch& launch : launches.launches()) {
    text += fmt::format("{} {} {} {}:", launch.kernel, launch.grid.x, launch.block.x, launch.sharedBytes);
    for (int i = 0; i < launch.arguments.count(); ++i) {
      for (int j = 0; j < launch.arguments.slotBytes(i); ++j) {
        text += fmt::format("{:02x}", static_cast<unsigned>(launch.arguments.slot(i)[j]));
      }
    }
  }
  return text;
}

TEST(QuantizedActivations, oneFormatIsOneLayoutForAllPlans) {
  for (const std::int64_t m : {1, 16, 133, 4097}) {
    for (const std::int64_t k : {256, 14336}) {
      std::map<std::string, std::pair<std::int64_t, std::string>> layouts;
      int plans = 0;
      for (const std::int64_t n : {37, 1638, 8192}) {
        const LinearShape shape{.n = n, .k = k, .m = m};
        forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem,
                               const Configuration& configuration) {
          const std::string format(kernelTemplate.activationFormat(problem, device(), configuration));
          LaunchList launches;
          // The stride of out does not matter, nor any operand but x.
          kernelTemplate.encodeActivations(problem, device(), configuration,
                                           {.linear = {.x = at(0x1000), .xStride = k}}, at(0x100000), launches);
          ASSERT_EQ(launches.launches().size(), 1U);
          const std::pair layout{kernelTemplate.activationBytes(problem, device(), configuration), textOf(launches)};
          const auto [known, isNew] = layouts.try_emplace(format, layout);
          ASSERT_EQ(known->second, layout) << format << " of " << configuration.text() << ", n = " << n;
          EXPECT_EQ(layout.first % 256, 0);
          ++plans;
        });
      }
      EXPECT_GE(layouts.size(), 2U) << "m = " << m << ", k = " << k;
      EXPECT_GT(plans, 100);
    }
  }
}

TEST(QuantizedActivations, everyTileFindsItsTokensPadded) {
  for (const std::int64_t m : {1, 16, 17, 133, 175, 177, 512, 513, 4096}) {
    const LinearShape shape{.n = 1024, .k = 14336, .m = m};
    forEachPlan(shape, [&](const Template& kernelTemplate, const Problem&, const Configuration& configuration) {
      if (kernelTemplate.id() != "q4k_linear.fused_sm90") return;
      const FusedTile tile(configuration);
      const FusedActivations layout(tile, shape);
      const std::int64_t end = (m + tile.tokens - 1) / tile.tokens * tile.tokens;
      EXPECT_GE(layout.mPadded, end) << configuration.text();
      // 14336 k begin 4 groups of 4096. A value without a number of groups here throws.
      const std::map<std::int64_t, std::int64_t> groups = {{0, 1}, {256, 56}, {4096, 4}};
      EXPECT_GE(layout.scaleBytes, layout.mPadded * 4 * groups.at(tile.scaleK)) << configuration.text();
      EXPECT_EQ(layout.mPadded % 4, 0) << "groups of scales are copied in units of 16 bytes";
    });
  }
}

TEST(QuantizedActivations, callsThatAreGivenThemLaunchNoQuantization) {
  for (const std::int64_t m : {1, 16, 133, 2048}) {
    for (const std::int64_t n : {1024, 4096}) {
      const LinearShape shape{.n = n, .k = 4096, .m = m};
      int withCounters = 0, without = 0;
      forEachPlan(
          shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
            const Operands operands = operandsOf(shape);
            const bool preparing = kernelTemplate.preparedBytes(problem, device(), configuration) > 0;
            LaunchList ordinary, given, quantization;
            kernelTemplate.encode(problem, device(), configuration, operands, at(0x100000), at(0x200000), ordinary);
            kernelTemplate.encodeActivations(problem, device(), configuration, operands, at(0x300000), quantization);
            // x is not looked at.
            Operands others = operands;
            others.linear.x = nullptr, others.linear.xStride = 0;
            kernelTemplate.encodeQuantized(problem, device(), configuration, others, at(0x300000), at(0x100000),
                                           at(0x200000), given);
            ASSERT_EQ(ordinary.launches().size(), 2U);
            const int quantizer = quantization.launches().front().kernel;
            const Launch& product = given.launches().back();
            EXPECT_EQ(product.kernel, ordinary.launches().back().kernel);
            EXPECT_EQ(product.grid.x, ordinary.launches().back().grid.x);
            if (given.launches().size() == 2) {
              // A small kernel that zeroes the counters of split tiles, behind all that was enqueued before.
              ++withCounters;
              const Launch& clear = given.launches().front();
              EXPECT_EQ(clear.grid.x, 1U);
              EXPECT_FALSE(clear.programmaticDependent);
              EXPECT_EQ(clear.kernel == quantizer, kernelTemplate.id() == "q4k_linear.small_m_sm90");
            } else {
              ASSERT_EQ(given.launches().size(), 1U) << configuration.text();
              ++without;
            }
            // Without prepared weights their preparation comes first.
            LaunchList unprepared;
            kernelTemplate.encodeQuantized(problem, device(), configuration, others, at(0x300000), at(0x100000),
                                           nullptr, unprepared);
            EXPECT_EQ(unprepared.launches().size(), given.launches().size() + (preparing ? 1 : 0));
            EXPECT_THAT(product.arguments.maps(), Not(IsEmpty()));
          });
      EXPECT_GT(withCounters, 0) << "m = " << m << ", n = " << n;
      EXPECT_GT(without, 0) << "m = " << m << ", n = " << n;
    }
  }
}

TEST(QuantizedActivations, plansWithoutAFormatHaveNoBytes) {
  const Problem problem{.operation = Operation::kQ4kLinear,
                        .linear = {.n = 4096, .k = 4096, .m = 16, .precision = Precision::kFast}};
  for (const Template* each : allTemplates()) {
    if (each->operation() != problem.operation || each->refuses(problem, device())) continue;
    for (const Configuration& configuration : enumerateConfigurations(*each, problem, device())) {
      EXPECT_EQ(each->activationFormat(problem, device(), configuration).empty(),
                each->activationBytes(problem, device(), configuration) == 0)
          << each->id() << " " << configuration.text();
    }
  }
}

}  // namespace
}  // namespace tilewright
