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

Case smallCase() {
  return {.name = "small", .problem = {.operation = Operation::kLinear, .linear = {.n = 16, .k = 32, .m = 24}}};
}

TEST_F(HarnessTest, aThousandRunsShowWhatOneOfFiveHundredDoes) {
  const auto rare = makeNativeTemplate(Operation::kLinear, Mistake::kDiffersRarely);
  EXPECT_THAT(harness_.run(*rare, smallCase()).failures, testing::IsEmpty());
  EXPECT_THAT(harness_.runRepeatedly(*rare, smallCase()).failures,
              testing::Contains(HasSubstr("differs from the first one")));
  const auto right = makeNativeTemplate(Operation::kLinear, Mistake::kNone);
  EXPECT_THAT(harness_.runRepeatedly(*right, smallCase()).failures, testing::IsEmpty());
}

TEST_F(HarnessTest, plansForFewerUnitsThanTheDeviceHas) {
  const auto wrong = makeNativeTemplate(Operation::kLinear, Mistake::kTakesEightBlocks);
  EXPECT_THAT(harness_.run(*wrong, smallCase(), 8).failures, testing::IsEmpty());
  EXPECT_THAT(harness_.run(*wrong, smallCase(), 7).failures, testing::Contains(HasSubstr("was not written")));
}

TEST_F(HarnessTest, plansShareActivationsUnlessTheirLayoutDependsOnMoreThanX) {
  const auto wrong = makeNativeTemplate(Operation::kLinear, Mistake::kLaysRowsOutByN);
  EXPECT_THAT(harness_.run(*wrong, smallCase()).failures, testing::IsEmpty());
  EXPECT_THAT(harness_.runShared(*wrong, smallCase()).failures,
              testing::ElementsAre(HasSubstr("on shared activations, {tile=1} for n = 8 differs")));
  const auto right = makeNativeTemplate(Operation::kLinear, Mistake::kNone);
  const Outcome outcome = harness_.runShared(*right, smallCase());
  EXPECT_THAT(outcome.failures, testing::IsEmpty());
  EXPECT_EQ(outcome.configurations, 1);
  Case prepared = smallCase();
  prepared.problem.operation = Operation::kQ4kLinear;
  prepared.problem.linear.k = 256, prepared.problem.linear.prepared = true;
  const auto blocks = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kNone);
  EXPECT_THAT(harness_.runShared(*blocks, prepared).failures, testing::IsEmpty());
  const auto attention = makeNativeTemplate(Operation::kAttention, Mistake::kNone);
  EXPECT_THAT(harness_.runShared(*attention, attentionCases().front()).excluded,
              HasSubstr("no plan takes activations"));
}

Case preparedCase() {
  return {.name = "prepared",
          .problem = {.operation = Operation::kQ4kLinear, .linear = {.n = 16, .k = 256, .m = 24, .prepared = true}}};
}

TEST_F(HarnessTest, plansSharePreparedWeightsUnlessTheirLayoutDependsOnMoreThanW) {
  const auto runs = [&](const Template& kernelTemplate, std::vector<const Template*> others) {
    EXPECT_THAT(harness_.run(kernelTemplate, preparedCase()).failures, testing::IsEmpty());
    return harness_.runPrepared(kernelTemplate, preparedCase(), others);
  };
  const auto byRows = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kLaysRowsOutByM);
  EXPECT_THAT(runs(*byRows, {}).failures,
              testing::ElementsAre(HasSubstr("on blocks of q4k_linear.native {tile=1} for m = 112: differs")));
  const auto spareFirst = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kPutsSpareFirst, true);
  const auto right = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kNone);
  const auto spare = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kNone, true);
  EXPECT_THAT(runs(*spareFirst, {right.get()}).failures, testing::IsEmpty());
  EXPECT_THAT(runs(*right, {spareFirst.get()}).failures,
              testing::ElementsAre(HasSubstr("on blocks+spare of q4k_linear.native {tile=1} for m = 24: differs")));
  EXPECT_THAT(runs(*right, {spare.get()}).failures, testing::IsEmpty());
  // Too few bytes serve nobody: blocks alone are not given to a plan with a spare part.
  const auto half = makeNativeTemplate(Operation::kQ4kLinear, Mistake::kPreparesHalf);
  EXPECT_THAT(runs(*spare, {half.get()}).failures, testing::IsEmpty());
  EXPECT_THAT(runs(*right, {half.get()}).failures, testing::SizeIs(1));

  const auto plain = makeNativeTemplate(Operation::kLinear, Mistake::kNone);
  EXPECT_THAT(harness_.runPrepared(*plain, smallCase()).excluded, HasSubstr("no plan takes weights"));
}

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

/// An edge that every template of q4k_linear for Hopper must be shown to get right.
struct Edge {
  std::string_view name;
  bool (*holds)(const Case& each);
  bool fewRows = true;  ///< a template for few rows takes it too
};

constexpr double kTwoTo31 = 2147483648.0;

constexpr Edge kEdges[] = {
    {"n_37", [](const Case& c) { return c.problem.linear.n == 37; }},
    {"n_257", [](const Case& c) { return c.problem.linear.n == 257; }},
    {"n_1638", [](const Case& c) { return c.problem.linear.n == 1638; }},
    {"n_37_split", [](const Case& c) { return c.problem.linear.n == 37 && c.problem.linear.k >= 4096; }},
    {"k_256", [](const Case& c) { return c.problem.linear.k == 256; }},
    {"k_28672", [](const Case& c) { return c.problem.linear.k == 28672; }, false},
    {"k_28672_weights_1e-3",
     [](const Case& c) { return c.problem.linear.k == 28672 && c.operands.weightScale == 1e-3; }, false},
    {"k_28672_weights_1e2", [](const Case& c) { return c.problem.linear.k == 28672 && c.operands.weightScale == 1e2; },
     false},
    {"k_147456", [](const Case& c) { return c.problem.linear.k == 147456; }},
    {"m_0", [](const Case& c) { return c.problem.linear.m == 0; }},
    {"m_1", [](const Case& c) { return c.problem.linear.m == 1; }},
    {"m_7", [](const Case& c) { return c.problem.linear.m == 7; }},
    {"m_133", [](const Case& c) { return c.problem.linear.m == 133; }, false},
    {"m_133_ragged", [](const Case& c) { return c.problem.linear.m == 133 && c.problem.linear.n % 8 != 0; }, false},
    {"m_61681", [](const Case& c) { return c.problem.linear.m == 61681; }, false},
    {"w_beyond_2^31",
     [](const Case& c) {
       return static_cast<double>(c.problem.linear.n) * static_cast<double>(c.problem.linear.k) > kTwoTo31;
     }},
    {"out_beyond_2^31",
     [](const Case& c) {
       return static_cast<double>(c.problem.linear.n) * static_cast<double>(c.problem.linear.m) > kTwoTo31;
     }},
    {"x_beyond_2^31",
     [](const Case& c) {
       return static_cast<double>(c.problem.linear.m) * static_cast<double>(c.problem.linear.k) > kTwoTo31;
     },
     false},
    {"x_strided", [](const Case& c) { return c.operands.xPadding > 0; }},
    {"out_strided", [](const Case& c) { return c.operands.outPadding > 0; }},
    {"base_offset", [](const Case& c) { return c.operands.baseOffset > 0; }},
    {"bias", [](const Case& c) { return c.problem.linear.bias; }},
    {"bias_ragged", [](const Case& c) { return c.problem.linear.bias && c.problem.linear.n % 8 != 0; }},
    {"bias_deep", [](const Case& c) { return c.problem.linear.bias && c.problem.linear.k >= 2048; }},
    {"prepared", [](const Case& c) { return c.problem.linear.prepared; }},
    {"prepared_bias_ragged",
     [](const Case& c) { return c.problem.linear.prepared && c.problem.linear.bias && c.problem.linear.n % 8 != 0; }},
    {"prepared_x_outliers",
     [](const Case& c) {
       return c.problem.linear.prepared && c.operands.activations == reference::Activations::kOutliers;
     },
     false},
    {"prepared_flows", [](const Case& c) { return c.problem.linear.prepared && hasFlows(c); }, false},
    {"x_outliers", [](const Case& c) { return c.operands.activations == reference::Activations::kOutliers; }},
    {"x_zero_rows", [](const Case& c) { return c.operands.activations == reference::Activations::kZeroRows; }},
    {"x_constant_rows", [](const Case& c) { return c.operands.activations == reference::Activations::kConstantRows; }},
    {"x_extremes", [](const Case& c) { return c.operands.activations == reference::Activations::kExtremes; }},
    {"x_large", [](const Case& c) { return c.operands.activations == reference::Activations::kLarge; }},
    {"w_only_mins", [](const Case& c) { return c.operands.weights == reference::Weights::kOnlyMins; }},
    {"w_negative", [](const Case& c) { return c.operands.weights == reference::Weights::kNegativeSteps; }},
    {"w_any_bits", [](const Case& c) { return c.operands.weights == reference::Weights::kAnyBits; }},
    {"weights_1e-3", [](const Case& c) { return c.operands.weightScale == 1e-3; }},
    {"weights_1e2", [](const Case& c) { return c.operands.weightScale == 1e2; }},
    {"flows", [](const Case& c) { return hasFlows(c); }},
    {"flows_ragged", [](const Case& c) { return hasFlows(c) && c.problem.linear.n % 8 != 0; }},
};

TEST(Cases, everyHopperTemplateTakesEveryEdge) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const std::vector<Case> cases = linearCases(Operation::kQ4kLinear);
  for (const auto& [id, precision] : {std::pair{"q4k_linear.fused_sm90", Precision::kInt8},
                                      {"q4k_linear.fused_sm90", Precision::kFp8},
                                      {"q4k_linear.exact_sm90", Precision::kExact},
                                      {"q4k_linear.small_m_sm90", Precision::kInt8},
                                      {"q4k_linear.plain_cuda", Precision::kExact}}) {
    const Template& kernelTemplate = *findTemplate(id);
    for (const Edge& edge : kEdges) {
      if (!edge.fewRows && id == std::string_view("q4k_linear.small_m_sm90")) continue;
      EXPECT_TRUE(std::ranges::any_of(cases,
                                      [&](const Case& each) {
                                        return each.problem.linear.precision == precision && edge.holds(each) &&
                                               !kernelTemplate.refuses(problemOf(each), device);
                                      }))
          << id << " " << precisionName(precision) << " runs no case of " << edge.name;
    }
  }
}

TEST(Cases, moreRowsAndOtherColumnsKeepBuilds) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const SourceCatalog sources;
  std::map<std::string_view, int> plans;
  for (const Case& each : linearCases(Operation::kQ4kLinear)) {
    if (!hasFlows(each)) continue;
    for (const Template* kernelTemplate : allTemplates()) {
      if (kernelTemplate->refuses(problemOf(each), device)) continue;
      const Configuration configuration = kernelTemplate->defaultConfiguration(problemOf(each), device);
      const auto keysOf = [&](const Case& chosen) {
        std::vector<std::string> keys;
        for (const BuildRequest& request :
             kernelTemplate->buildRequests(problemOf(chosen), device, configuration, sources)) {
          keys.push_back(buildKey(request, ""));
        }
        return keys;
      };
      const auto expectSameBuilds = [&](const Case& other) {
        EXPECT_FALSE(kernelTemplate->refuses(problemOf(other), device)) << kernelTemplate->id() << " " << each.name;
        EXPECT_EQ(keysOf(other), keysOf(each)) << kernelTemplate->id() << " " << each.name;
        ++plans[kernelTemplate->id()];
      };
      // As the flows run them: on other rows' preparation, on other columns' activations.
      if (!kernelTemplate->preparedFormat(problemOf(each), device, configuration).empty()) {
        expectSameBuilds(withMoreRows(each));
      }
      if (!kernelTemplate->activationFormat(problemOf(each), device, configuration).empty()) {
        expectSameBuilds(withOtherColumns(each));
      }
    }
  }
  EXPECT_GT(plans["q4k_linear.fused_sm90"], 10);
  EXPECT_GT(plans["q4k_linear.two_pass_sm90"], 10);
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

/// Whether the configurations that a case of every pair tries have every pair of values of a legal one.
void expectEveryPair(const Template& kernelTemplate, const Case& each, const DeviceInfo& device) {
  SCOPED_TRACE(fmt::format("{} {}", each.name, kernelTemplate.id()));
  const Problem problem = problemOf(each);
  const std::vector<Configuration> space = enumerateConfigurations(kernelTemplate, problem, device);
  const std::vector<Configuration> chosen = configurationsOf(kernelTemplate, each, device, 0);
  EXPECT_EQ(chosen.front(), kernelTemplate.defaultConfiguration(problem, device));
  EXPECT_LE(chosen.size(), std::max<std::size_t>(space.size() / 4, 30));
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
  EXPECT_TRUE(left.empty()) << left.begin()->first.first << " and " << left.begin()->second.first;
}

TEST(Cases, everyPairMeansEveryPairOfALegalConfiguration) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  std::set<std::string> tested;  // the space of attention depends on the head dim alone, of q4k_linear on little more
  for (const Operation operation : {Operation::kAttention, Operation::kQ4kLinear}) {
    for (const Case& each : casesOf(operation)) {
      if (!each.everyPair) continue;
      for (const Template* kernelTemplate : allTemplates()) {
        const Problem problem = problemOf(each);
        if (kernelTemplate->refuses(problem, device)) continue;
        const Precision computed =
            kernelTemplate->precision(problem, kernelTemplate->defaultConfiguration(problem, device));
        // The space of a template that computes more exactly than it must is the same for every precision.
        const bool isExact = problem.linear.precision == Precision::kExact;
        if (problem.isLinear() && isExact != (computed == Precision::kExact)) continue;
        const std::string space = problem.isLinear() ? std::string(precisionName(problem.linear.precision))
                                                     : fmt::to_string(problem.attention.headDim);
        if (!tested.insert(fmt::format("{} {}", kernelTemplate->id(), space)).second) continue;
        expectEveryPair(*kernelTemplate, each, device);
      }
    }
  }
  EXPECT_EQ(tested.size(), 9U + 8U);
}

}  // namespace
}  // namespace tilewright::conformance
