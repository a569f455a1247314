// The tests of the suites: a right template passes every case, and every planted mistake fails one at least.
#include "tests/conformance/harness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/host/cpu_device.h"
#include "tests/conformance/native_template.h"

namespace tilewright::conformance {
namespace {

using testing::HasSubstr;

class HarnessTest : public testing::Test {
 protected:
  HarnessTest()
      : loader_(makeNativeLoader()),
        device_(makeCpuDevice(loader_.get())),
        harness_(*device_, nativeBuild(), {.spread = 1, .repeats = 1, .budget = 1e6}) {}

  /// The cases that plain loops compute quickly.
  static std::vector<Case> smallCases(Operation operation, double maxFlops) {
    std::vector<Case> cases;
    for (Case& each : casesOf(operation)) {
      if (!each.huge && flops(each.problem) <= maxFlops) cases.push_back(std::move(each));
    }
    return cases;
  }

  std::unique_ptr<HostLoader> loader_;
  std::unique_ptr<Device> device_;
  Harness harness_;
};

constexpr double kFlops = 9e6;

class NativeConformance : public HarnessTest, public testing::WithParamInterface<Operation> {};

TEST_P(NativeConformance, aRightTemplatePassesEveryCase) {
  const auto right = makeNativeTemplate(GetParam(), Mistake::kNone);
  for (const Case& each : smallCases(GetParam(), kFlops)) {
    const Outcome outcome = harness_.run(*right, each);
    EXPECT_TRUE(outcome.excluded.empty()) << each.name << ": " << outcome.excluded;
    EXPECT_THAT(outcome.failures, testing::IsEmpty()) << each.name;
    EXPECT_GE(outcome.configurations, 1) << each.name;
  }
}

TEST_P(NativeConformance, everyMistakeFailsACase) {
  const std::vector<Case> cases = smallCases(GetParam(), kFlops);
  std::vector<std::unique_ptr<Template>> templates;
  std::map<Mistake, std::string> found;
  const std::vector<Mistake> mistakes = mistakesOf(GetParam());
  for (const Mistake mistake : mistakes) templates.push_back(makeNativeTemplate(GetParam(), mistake));
  for (const Case& each : cases) {
    for (std::size_t i = 0; i < mistakes.size(); ++i) {
      // Computing a large case to find again what is known would only take time.
      if (found.contains(mistakes[i])) continue;
      const Outcome outcome = harness_.run(*templates[i], each);
      if (!outcome.failures.empty()) found[mistakes[i]] = each.name + ": " + outcome.failures.front();
    }
  }
  for (const Mistake mistake : mistakes) {
    EXPECT_TRUE(found.contains(mistake)) << mistakeName(mistake) << " passes all " << cases.size() << " cases";
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, NativeConformance,
                         testing::Values(Operation::kLinear, Operation::kQ4kLinear, Operation::kAttention),
                         [](const auto& operation) { return std::string(operationName(operation.param)); });

TEST_F(HarnessTest, reportsWhatATemplateRefuses) {
  const auto attention = makeNativeTemplate(Operation::kAttention, Mistake::kNone);
  const Outcome outcome = harness_.run(*attention, linearCases(Operation::kLinear).front());
  EXPECT_THAT(outcome.excluded, HasSubstr("operation: the operation is linear"));
  EXPECT_EQ(outcome.configurations, 0);
}

TEST_F(HarnessTest, aBuildThatFailsIsAFailure) {
  const Build broken = [](const BuildRequest&) -> Result<Binary> {
    return std::unexpected(Error{ErrorCode::kCompile, "cannot compile", "line 3: error"});
  };
  Harness harness(*device_, broken, {});
  const auto right = makeNativeTemplate(Operation::kLinear, Mistake::kNone);
  const Outcome outcome = harness.run(*right, linearCases(Operation::kLinear).front());
  ASSERT_FALSE(outcome.failures.empty());
  EXPECT_THAT(outcome.failures.front(), HasSubstr("line 3: error"));
}

TEST_F(HarnessTest, refusedBuildsAreFailuresOfTheDefaultAlone) {
  const Build refused = [](const BuildRequest&) -> Result<Binary> {
    return fail(ErrorCode::kUnsupported, "no_spills: spills 8 bytes");
  };
  Harness harness(*device_, refused, {.spread = 1});
  const auto right = makeNativeTemplate(Operation::kLinear, Mistake::kNone);
  EXPECT_EQ(harness.run(*right, linearCases(Operation::kLinear).front()).failures.size(), 1U);
}

TEST(Cases, namesAreUnique) {
  for (const Operation operation : {Operation::kLinear, Operation::kQ4kLinear, Operation::kAttention}) {
    std::set<std::string> names;
    for (const Case& each : casesOf(operation)) {
      EXPECT_TRUE(names.insert(each.name).second) << operationName(operation) << " " << each.name;
      EXPECT_TRUE(validate(each.problem)) << each.name;
    }
  }
}

TEST(Cases, promiseOnlyTheAlignmentThatTheirOperandsHave) {
  const auto aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  const auto alignedStrides = [](const Strides& s) {
    return s.column == 1 && s.row % 8 == 0 && s.head % 8 == 0 && s.batch % 8 == 0;
  };
  int promised = 0, others = 0;
  for (const Operation operation : {Operation::kLinear, Operation::kQ4kLinear, Operation::kAttention}) {
    for (const Case& each : casesOf(operation)) {
      // Precision does not change a layout.
      if (each.huge || bytes(each.problem) > 2e6 || each.problem.linear.precision != Precision::kExact) continue;
      const Operands inputs = reference::makeOperands(each.problem, each.operands).value().inputs();
      if (alignmentOf(each) == Alignment::kAny) {
        ++others;
        continue;
      }
      ++promised;
      if (each.problem.isLinear()) {
        EXPECT_TRUE(aligned(inputs.linear.x) && aligned(inputs.linear.w) && aligned(inputs.linear.bias)) << each.name;
        EXPECT_TRUE(inputs.linear.xStride % 8 == 0 && inputs.linear.outStride % 8 == 0) << each.name;
      } else {
        const AttentionOperands& a = inputs.attention;
        EXPECT_TRUE(aligned(a.q) && aligned(a.k) && aligned(a.v)) << each.name;
        EXPECT_TRUE(alignedStrides(a.qStride) && alignedStrides(a.kStride) && alignedStrides(a.vStride) &&
                    alignedStrides(a.outStride))
            << each.name;
      }
    }
  }
  EXPECT_GT(promised, 100);
  EXPECT_GT(others, 50);
}

TEST(Cases, spreadVisitsTheWholeSpaceOverTheCases) {
  const Template& kernelTemplate = *findTemplate("linear.plain_cuda");
  const DeviceInfo device = nominalDevice("sm_90a").value();
  std::set<std::string> visited;
  std::size_t space = 0;
  for (const Case& each : linearCases(Operation::kLinear)) {
    space = enumerateConfigurations(kernelTemplate, problemOf(each), device).size();
    const auto chosen = configurationsOf(kernelTemplate, each, device, 2);
    EXPECT_EQ(chosen.size(), 3U);
    EXPECT_EQ(chosen.front(), kernelTemplate.defaultConfiguration(problemOf(each), device));
    for (const Configuration& configuration : chosen) visited.insert(configuration.text());
  }
  EXPECT_EQ(visited.size(), space);
}

TEST(Cases, everyPairMeansEveryPairOfALegalConfiguration) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  std::set<std::string> tested;  // the space depends on the head dim alone
  for (const Case& each : attentionCases()) {
    if (!each.everyPair) continue;
    for (const std::string_view id : {"attention.tma_sm90", "attention.decode_sm90", "attention.plain_cuda"}) {
      const Template& kernelTemplate = *findTemplate(id);
      const Problem problem = problemOf(each);
      if (kernelTemplate.refuses(problem, device)) continue;
      if (!tested.insert(fmt::format("{} {}", id, problem.attention.headDim)).second) continue;
      const std::vector<Configuration> space = enumerateConfigurations(kernelTemplate, problem, device);
      const std::vector<Configuration> chosen = configurationsOf(kernelTemplate, each, device, 0);
      EXPECT_EQ(chosen.front(), kernelTemplate.defaultConfiguration(problem, device));
      EXPECT_LE(chosen.size(), std::max<std::size_t>(space.size() / 4, 30)) << each.name << " " << id;
      using Setting = Configuration::Entry;
      std::set<std::pair<Setting, Setting>> left;
      for (const Configuration& legal : space) {
        for (const Setting& a : legal.entries()) {
          for (const Setting& b : legal.entries()) left.insert({a, b});
        }
      }
      for (const Configuration& configuration : chosen) {
        EXPECT_FALSE(kernelTemplate.refusesConfiguration(problem, device, configuration)) << configuration.text();
        for (const Setting& a : configuration.entries()) {
          for (const Setting& b : configuration.entries()) left.erase({a, b});
        }
      }
      EXPECT_TRUE(left.empty()) << each.name << " " << id << ": " << left.begin()->first.first << " and "
                                << left.begin()->second.first;
    }
  }
  EXPECT_EQ(tested.size(), 9U);
}

}  // namespace
}  // namespace tilewright::conformance
