// linear.portable and q4k_linear.portable: every edge with the default configuration on every level of x86-64, and one
// problem with tails over a spread of the configuration space.
#include "templates/linear/portable.h"
#include "templates/q4k_linear/portable.h"
#include "tests/templates/portable_run.h"

namespace tilewright {
namespace {

Problem problemOf(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k, bool bias) {
  return {.operation = operation, .alignment = Alignment::kAny, .linear = {.n = n, .k = k, .m = m, .bias = bias}};
}

class PortableLinear : public PortableRun {
 protected:
  void checkEverywhere(const Template& kernelTemplate, const std::vector<PortableCase>& cases) {
    for (const PortableCase& each : cases) {
      for (const std::string& target : targets()) {
        const DeviceInfo device = deviceFor(target);
        ASSERT_FALSE(kernelTemplate.refuses(each.problem, device)) << each.name;
        check(kernelTemplate, each, device, kernelTemplate.defaultConfiguration(each.problem, device));
      }
    }
  }

  /// About `count` configurations, evenly spread over the space.
  void checkSpread(const Template& kernelTemplate, const PortableCase& each, std::size_t count) {
    const auto operands = reference::makeOperands(each.problem, each.options);
    ASSERT_TRUE(operands) << operands.error().message;
    const auto expected = reference::Expectation::compute(*operands, {});
    for (const std::string& target : targets()) {
      const DeviceInfo device = deviceFor(target);
      const auto space = enumerateConfigurations(kernelTemplate, each.problem, device);
      ASSERT_GT(space.size(), count);
      for (std::size_t i = 0; i < space.size(); i += space.size() / count) {
        check(kernelTemplate, expected, *operands, device, space[i]);
      }
    }
  }
};

TEST_F(PortableLinear, computesEveryEdge) {
  constexpr auto kLinear = Operation::kLinear;
  checkEverywhere(
      linearPortable(),
      {
          {"one_of_each", problemOf(kLinear, 1, 1, 1, true), {}},
          {"no_rows", problemOf(kLinear, 0, 5, 8, false), {}},
          {"k_tail_below_a_vector", problemOf(kLinear, 2, 3, 5, false), {}},
          {"rows_tail", problemOf(kLinear, 133, 96, 64, false), {}},
          {"columns_tail", problemOf(kLinear, 16, 257, 128, true), {}},
          {"k_tail", problemOf(kLinear, 9, 70, 331, true), {}},
          {"vector_times_matrix", problemOf(kLinear, 1, 333, 1031, true), {}},
          {"stride_odd", problemOf(kLinear, 37, 65, 100, true), {.baseOffset = 3, .xPadding = 5, .outPadding = 7}},
      });
}

TEST_F(PortableLinear, computesEveryEdgeOfQ4k) {
  constexpr auto kQ4k = Operation::kQ4kLinear;
  using reference::Weights;
  checkEverywhere(
      q4kLinearPortable(),
      {
          {"one_of_each", problemOf(kQ4k, 1, 1, 256, true), {}},
          {"no_rows", problemOf(kQ4k, 0, 5, 256, false), {}},
          {"tails", problemOf(kQ4k, 133, 37, 512, true), {}},
          {"vector_times_matrix", problemOf(kQ4k, 1, 257, 1024, false), {}},
          {"four_rows", problemOf(kQ4k, 4, 100, 768, true), {}},
          {"any_bits", problemOf(kQ4k, 20, 70, 512, false), {.weights = Weights::kAnyBits}},
          {"only_minimums", problemOf(kQ4k, 3, 70, 512, false), {.weights = Weights::kOnlyMins}},
          {"negative_steps", problemOf(kQ4k, 33, 70, 512, false), {.weights = Weights::kNegativeSteps}},
          {"stride_odd", problemOf(kQ4k, 37, 65, 256, true), {.baseOffset = 3, .xPadding = 5, .outPadding = 7}},
      });
}

TEST_F(PortableLinear, computesTailsWithEveryKindOfConfiguration) {
  checkSpread(linearPortable(), {"tails", problemOf(Operation::kLinear, 77, 301, 203, true), {.baseOffset = 1}}, 40);
  checkSpread(q4kLinearPortable(), {"tails", problemOf(Operation::kQ4kLinear, 77, 301, 512, true), {.baseOffset = 1}},
              20);
}

TEST_F(PortableLinear, refusesByName) {
  const DeviceInfo cpu = deviceFor(targets().back());
  const Problem problem = problemOf(Operation::kLinear, 64, 64, 64, false);
  DeviceInfo gpu = cpu;
  gpu.kind = DeviceKind::kCuda, gpu.target = "sm_90a";
  EXPECT_EQ(linearPortable().refuses(problem, gpu)->constraint, "target");
  EXPECT_EQ(linearPortable().refuses(problemOf(Operation::kQ4kLinear, 1, 1, 256, false), cpu)->constraint, "operation");

  const Configuration good = linearPortable().defaultConfiguration(problem, cpu);
  const auto refusalWith = [&](std::string_view name, std::int64_t value) {
    Configuration changed = good;
    changed.set(name, value);
    const auto refusal = linearPortable().refusesConfiguration(problem, cpu, changed);
    return refusal ? refusal->constraint : "";
  };
  EXPECT_EQ(refusalWith("tile_m", 64), "");
  EXPECT_EQ(refusalWith("tile_m", 128), "tile_m");
  EXPECT_EQ(refusalWith("tile_m", 1), "no_micro_tile");
  EXPECT_EQ(refusalWith("tile_m", 3), "tile_m");
}

}  // namespace
}  // namespace tilewright
