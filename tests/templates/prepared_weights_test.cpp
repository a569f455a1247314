// Weights prepared once: where they are made, what they take, and that calls that are given them do not make them
// again. That their bits are right is the conformance suite's.
#include <gtest/gtest.h>

#include <set>

#include "base/device_info.h"
#include "templates/template.h"

namespace tilewright {
namespace {

const DeviceInfo& device() {
  static const DeviceInfo kDevice = nominalDevice("sm_90a").value();
  return kDevice;
}

template <typename T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

/// Calls `body(template, problem, configuration)` on every plan that prepares weights; returns their templates' ids.
template <typename Body>
std::set<std::string_view> forEachPlan(LinearShape shape, Body&& body) {
  std::set<std::string_view> ids;
  for (const Precision precision : {Precision::kInt8, Precision::kFp8}) {
    shape.precision = precision;
    const Problem problem{.operation = Operation::kQ4kLinear, .linear = shape};
    for (const Template* each : allTemplates()) {
      if (each->refuses(problem, device())) continue;
      for (const Configuration& configuration : enumerateConfigurations(*each, problem, device())) {
        if (each->preparedBytes(problem, device(), configuration) == 0) continue;
        ids.insert(each->id());
        body(*each, problem, configuration);
      }
    }
  }
  return ids;
}

Problem preparedOf(Problem problem) {
  problem.linear.prepared = true;
  return problem;
}

TEST(PreparedWeights, lieInTheWorkspaceUnlessTheCallerKeepsThem) {
  const auto ids =
      forEachPlan({.n = 1638, .k = 14336, .m = 133},
                  [](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
                    const std::int64_t bytes = kernelTemplate.preparedBytes(problem, device(), configuration);
                    EXPECT_EQ(bytes, kernelTemplate.preparedBytes(preparedOf(problem), device(), configuration));
                    EXPECT_EQ(kernelTemplate.workspaceBytes(problem, device(), configuration),
                              kernelTemplate.workspaceBytes(preparedOf(problem), device(), configuration) + bytes)
                        << kernelTemplate.id() << " " << configuration.text();
                  });
  EXPECT_TRUE(ids.contains("q4k_linear.fused_sm90") && ids.contains("q4k_linear.two_pass_sm90"));
}

TEST(PreparedWeights, ofTwoPassesAreTheWeightsInBytes) {
  const LinearShape shape{.n = 1638, .k = 14336, .m = 133};
  int plans = 0;
  forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
    const std::int64_t bytes = kernelTemplate.preparedBytes(problem, device(), configuration);
    const bool isTwoPass = kernelTemplate.id() == "q4k_linear.two_pass_sm90";
    plans += isTwoPass;
    // Beside two numbers a row, padded for the highest tile.
    const std::int64_t values = isTwoPass ? shape.n * shape.k : 0, numbers = 2 * 4 * (shape.n + 3840);
    EXPECT_GE(bytes, values + 2 * 4 * shape.n) << configuration.text();
    EXPECT_LE(bytes, values + numbers + 256) << configuration.text();
  });
  EXPECT_GT(plans, 10);
}

TEST(PreparedWeights, areMadeByOneKernelAheadOfACallWithoutThem) {
  const LinearShape shape{.n = 1024, .k = 4096, .m = 133};
  forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
    const Operands operands{
        .linear = {.x = at(0x1000), .xStride = shape.k, .w = at(0x2000), .out = at(0x3000), .outStride = shape.n}};
    LaunchList with, without, preparation;
    kernelTemplate.encode(preparedOf(problem), device(), configuration, operands, at(0x100000), at(0x200000), with);
    kernelTemplate.encode(problem, device(), configuration, operands, at(0x100000), nullptr, without);
    kernelTemplate.encodePreparation(problem, device(), configuration, operands, at(0x200000), preparation);
    ASSERT_EQ(preparation.launches().size(), 1U);
    ASSERT_EQ(without.launches().size(), with.launches().size() + 1);
    const Launch& alone = preparation.launches().front();
    const Launch& within = without.launches().front();
    EXPECT_EQ(within.kernel, alone.kernel) << kernelTemplate.id() << " " << configuration.text();
    EXPECT_EQ(within.grid.x, alone.grid.x);
    EXPECT_NE(with.launches().front().kernel, alone.kernel);
    // What follows may not start before the weights are there.
    EXPECT_FALSE(without.launches()[1].programmaticDependent);
  });
}

/// A rank-2 map of a launch, over W or what was made of it.
const TensorMap& weightMap(const LaunchList& launches) {
  return launches.launches().back().arguments.maps().front();
}

TEST(PreparedWeights, areReadWhereTheyWereMade) {
  const LinearShape shape{.n = 1024, .k = 4096, .m = 133};
  const auto ids = forEachPlan(
      shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
        if (kernelTemplate.id() != "q4k_linear.two_pass_sm90") return;
        const Operands operands{
            .linear = {.x = at(0x1000), .xStride = shape.k, .w = at(0x2000), .out = at(0x3000), .outStride = shape.n}};
        LaunchList with, preparation;
        kernelTemplate.encode(preparedOf(problem), device(), configuration, operands, at(0x100000), at(0x200000), with);
        kernelTemplate.encodePreparation(problem, device(), configuration, operands, at(0x200000), preparation);
        const Launch& expand = preparation.launches().front();
        const void* values = nullptr;  // the fourth argument: w, bounds, inverses, values
        std::memcpy(&values, expand.arguments.slot(3), sizeof(values));
        EXPECT_EQ(weightMap(with).base, values);
        EXPECT_EQ(weightMap(with).size[0], 4096U);
        EXPECT_EQ(weightMap(with).size[1], 1024U);
      });
  EXPECT_TRUE(ids.contains("q4k_linear.two_pass_sm90"));
}

}  // namespace
}  // namespace tilewright
