// The plain CUDA templates: they refuse no problem on any GPU from sm_75 on, and every family of their kernels compiles
// without spills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/nvrtc/nvrtc_compiler.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright {
namespace {

constexpr std::array<std::string_view, 5> kTargets{"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"};
constexpr std::array<std::string_view, 3> kIds{"linear.plain_cuda", "q4k_linear.plain_cuda", "attention.plain_cuda"};

Problem linear(Operation operation, std::int64_t m, Precision precision = Precision::kExact) {
  return {.operation = operation, .linear = {.n = 4096, .k = 4096, .m = m, .precision = precision, .bias = true}};
}

Problem attention(std::int64_t headDim, std::int64_t qLen) {
  return {.operation = Operation::kAttention,
          .attention = {.qHeads = 8, .kvHeads = 2, .headDim = headDim, .qLen = qLen, .kvLen = 1000, .causal = true}};
}

std::vector<Problem> problemsOf(Operation operation) {
  std::vector<Problem> problems;
  if (operation == Operation::kAttention) {
    for (std::int64_t d = 8; d <= 256; d += 8) {
      for (const std::int64_t qLen : {0, 1, 16, 17, 64, 5000}) problems.push_back(attention(d, qLen));
    }
  } else {
    for (const std::int64_t m : {0, 1, 16, 17, 64, 61681}) problems.push_back(linear(operation, m));
  }
  if (operation == Operation::kQ4kLinear) {
    for (const auto precision : {Precision::kFp8, Precision::kInt8, Precision::kFast}) {
      problems.push_back(linear(operation, 64, precision));
    }
  }
  for (std::size_t i = 0, count = problems.size(); i < count; ++i) {
    problems.push_back(problems[i]);
    problems.back().alignment = Alignment::kAny;
  }
  return problems;
}

TEST(PlainCuda, refusesNothingAndItsDefaultFitsEveryGpu) {
  for (const std::string_view id : kIds) {
    const Template* kernelTemplate = findTemplate(id);
    ASSERT_NE(kernelTemplate, nullptr) << id;
    for (const std::string_view target : kTargets) {
      const DeviceInfo device = nominalDevice(target).value();
      for (const Problem& problem : problemsOf(kernelTemplate->operation())) {
        EXPECT_FALSE(kernelTemplate->refuses(problem, device)) << id << target << toJson(problem);
        const Configuration configuration = kernelTemplate->defaultConfiguration(problem, device);
        const auto refusal = kernelTemplate->refusesConfiguration(problem, device, configuration);
        EXPECT_FALSE(refusal) << id << target << toJson(problem) << (refusal ? refusal->reason : "");
        EXPECT_EQ(kernelTemplate->workspaceBytes(problem, device, configuration), 0);
        EXPECT_GT(kernelTemplate->predictMicroseconds(problem, device, configuration), 0);
      }
    }
  }
}

TEST(PlainCuda, refusesOtherTargetsAndOperations) {
  const Template& kernelTemplate = *findTemplate("linear.plain_cuda");
  EXPECT_EQ(kernelTemplate.refuses(linear(Operation::kLinear, 1), nominalDevice("x86-64-v3").value())->constraint,
            "target");
  EXPECT_EQ(kernelTemplate.refuses(linear(Operation::kLinear, 1), nominalDevice("sm_70").value())->constraint,
            "target");
  EXPECT_EQ(kernelTemplate.refuses(attention(64, 1), nominalDevice("sm_80").value())->constraint, "operation");
}

TEST(PlainCuda, refusesWhatADatabaseMayHold) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Problem problem = linear(Operation::kLinear, 64);
  const Template& kernelTemplate = *findTemplate("linear.plain_cuda");
  const auto refused = [&](std::vector<Configuration::Entry> entries) {
    const auto refusal = kernelTemplate.refusesConfiguration(problem, device, Configuration(std::move(entries)));
    return refusal ? refusal->constraint : std::string("accepted");
  };
  EXPECT_EQ(refused({}), "tile_m");
  EXPECT_EQ(refused({{"tile_m", 64}, {"tile_n", 64}}), "warps");
  EXPECT_EQ(refused({{"tile_m", 65}, {"tile_n", 64}, {"warps", 4}}), "tile_m");
  EXPECT_EQ(refused({{"tile_m", 16}, {"tile_n", 64}, {"warps", 8}}), "warp_columns");
  EXPECT_EQ(refused({{"tile_m", 128}, {"tile_n", 128}, {"warps", 4}}), "registers");
  EXPECT_EQ(refused({{"tile_m", 64}, {"tile_n", 64}, {"warps", 4}, {"stages", 2}}), "parameters");
  EXPECT_EQ(refused({{"tile_m", 64}, {"tile_n", 64}, {"warps", 4}}), "accepted");

  const Template& attentionTemplate = *findTemplate("attention.plain_cuda");
  const Configuration large({{"warps", 8}, {"tile_kv", 64}});
  EXPECT_EQ(
      attentionTemplate.refusesConfiguration(attention(256, 64), nominalDevice("sm_86").value(), large)->constraint,
      "shared_memory");
  EXPECT_FALSE(attentionTemplate.refusesConfiguration(attention(256, 64), device, large));
}

TEST(PlainCuda, launchesNothingForEmptyOutputs) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  for (const Problem& problem : {linear(Operation::kLinear, 0), linear(Operation::kQ4kLinear, 0), attention(64, 0)}) {
    const Template& kernelTemplate = *findTemplate(std::string(operationName(problem.operation)) + ".plain_cuda");
    LaunchList launches;
    kernelTemplate.encode(problem, device, kernelTemplate.defaultConfiguration(problem, device), {}, nullptr, nullptr,
                          launches);
    EXPECT_TRUE(launches.launches().empty());
  }
}

struct Build {
  std::string_view id;
  Alignment alignment;
  std::int64_t headDim;
};

class PlainCudaBuilds : public testing::TestWithParam<std::string_view> {};

TEST_P(PlainCudaBuilds, assembleWithoutSpills) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const DeviceInfo device = nominalDevice(GetParam()).value();
  if (std::ranges::find((*compiler)->capabilities(), device.computeMajor * 10 + device.computeMinor) ==
      (*compiler)->capabilities().end()) {
    GTEST_SKIP() << "this NVRTC does not know " << GetParam();
  }
  const SourceCatalog sources;
  for (const auto& [id, alignment, headDim] :
       {Build{"linear.plain_cuda", Alignment::k16, 0}, Build{"linear.plain_cuda", Alignment::kAny, 0},
        Build{"q4k_linear.plain_cuda", Alignment::k16, 0}, Build{"q4k_linear.plain_cuda", Alignment::kAny, 0},
        Build{"attention.plain_cuda", Alignment::k16, 128}, Build{"attention.plain_cuda", Alignment::kAny, 256},
        Build{"attention.plain_cuda", Alignment::kAny, 8}}) {
    const Template& kernelTemplate = *findTemplate(id);
    Problem problem = kernelTemplate.operation() == Operation::kAttention ? attention(headDim, 512)
                                                                          : linear(kernelTemplate.operation(), 1024);
    problem.alignment = alignment;
    // The largest accumulators of the space, where spills would show first.
    Configuration configuration = kernelTemplate.defaultConfiguration(problem, device);
    if (problem.isLinear()) configuration = Configuration({{"tile_m", 128}, {"tile_n", 128}, {"warps", 8}});
    ASSERT_FALSE(kernelTemplate.refusesConfiguration(problem, device, configuration));
    for (const BuildRequest& request : kernelTemplate.buildRequests(problem, device, configuration, sources)) {
      const auto binary = (*compiler)->build(request);
      ASSERT_TRUE(binary) << id << " " << binary.error().message << "\n" << binary.error().log;
      EXPECT_EQ(binary->spillBytes(), 0) << id << " " << toJson(problem);
      for (const KernelResources& kernel : binary->kernels) EXPECT_EQ(kernel.stackBytes, 0) << id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PlainCudaBuilds, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param); });

}  // namespace
}  // namespace tilewright
