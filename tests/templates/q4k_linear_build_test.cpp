// Every family of q4k_linear's Hopper kernels compiles without spills, stack frames and serialized wgmma, on a machine
// without a GPU. Spilling wgmma kernels were seen to compute wrongly, not only slowly.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/device_info.h"
#include "compiler/nvrtc/nvrtc_compiler.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright {
namespace {

struct Family {
  const char* name;
  const char* templateId;
  LinearShape shape;
  Configuration configuration;  // empty: the default
};

Configuration fused(std::int64_t arithmetic, std::int64_t scaleK, std::int64_t tokens, std::int64_t warpgroups,
                    std::int64_t stepK, std::int64_t buffers, std::int64_t stagesW, std::int64_t split = 1,
                    std::int64_t tableWarps = 2) {
  return Configuration({{"arithmetic", arithmetic},
                        {"scale_k", scaleK},
                        {"tokens", tokens},
                        {"warpgroups", warpgroups},
                        {"step_k", stepK},
                        {"buffers", buffers},
                        {"stages_w", stagesW},
                        {"table_warps", tableWarps},
                        {"split", split}});
}

Configuration twoPass(std::int64_t arithmetic, std::int64_t tokens, std::int64_t warpgroups, std::int64_t split) {
  return Configuration({{"arithmetic", arithmetic}, {"tokens", tokens}, {"warpgroups", warpgroups}, {"split", split}});
}

LinearShape rows(std::int64_t m, Precision precision = Precision::kFast) {
  return {4096, 4096, m, precision, false};
}

LinearShape deep(std::int64_t m) {
  return {4096, 14336, m, Precision::kFast, false};
}

std::vector<Family> families() {
  constexpr const char* kFused = "q4k_linear.fused_sm90";
  constexpr const char* kExact = "q4k_linear.exact_sm90";
  constexpr const char* kSmallM = "q4k_linear.small_m_sm90";
  constexpr const char* kTwoPass = "q4k_linear.two_pass_sm90";
  return {
      {"s8_256_tokens", kFused, rows(512), fused(0, 0, 256, 2, 64, 2, 4)},
      {"s8_192_tokens", kFused, rows(512), fused(0, 0, 192, 2, 64, 2, 4)},
      {"s8_128_tokens_two_buffers", kFused, rows(512), fused(0, 0, 128, 2, 128, 2, 4)},
      {"s8_128_tokens_three_warpgroups", kFused, rows(512), fused(0, 0, 128, 3, 256, 1, 4)},
      {"s8_64_tokens", kFused, rows(64), fused(0, 0, 64, 2, 128, 2, 6)},
      {"s8_64_tokens_four_warpgroups", kFused, rows(64), fused(0, 0, 64, 4, 64, 2, 3)},
      {"s8_16_tokens_five_warpgroups", kFused, rows(16), fused(0, 0, 16, 5, 64, 2, 3)},
      {"s8_16_tokens_one_buffer", kFused, rows(16), fused(0, 0, 16, 2, 256, 1, 6)},
      {"s8_scales_of_4096_k", kFused, deep(512), fused(0, 4096, 176, 2, 64, 2, 4)},
      {"s8_scales_of_4096_k_few_tokens", kFused, deep(128), fused(0, 4096, 128, 2, 128, 2, 4)},
      {"s8_scales_of_256_k", kFused, rows(512), fused(0, 256, 176, 2, 64, 2, 4)},
      {"s8_scales_of_256_k_four_warpgroups", kFused, rows(64), fused(0, 256, 32, 4, 256, 1, 4)},
      {"s8_scales_of_256_k_pairs", kFused, rows(256), fused(0, 256, 128, 2, 128, 2, 4, 3)},
      {"s8_128_tokens_table_warpgroup", kFused, rows(128), fused(0, 0, 128, 2, 128, 2, 4, 2, 4)},
      {"s8_128_tokens_pairs_table_warpgroup", kFused, rows(256), fused(0, 0, 128, 2, 128, 2, 4, 3, 4)},
      {"s8_64_tokens_four_warpgroups_table_warpgroup", kFused, rows(64), fused(0, 0, 64, 4, 64, 2, 3, 2, 4)},
      {"s8_64_tokens_five_warpgroups_table_warpgroup", kFused, rows(64), fused(0, 0, 64, 5, 64, 2, 3, 0, 4)},
      {"s8_ragged_rows_table_warpgroup",
       kFused,
       {4097, 4096, 64, Precision::kInt8, true},
       fused(0, 0, 64, 5, 64, 2, 3, 0, 4)},
      {"s8_scales_of_4096_k_table_warpgroup", kFused, deep(128), fused(0, 4096, 128, 2, 128, 2, 4, 3, 4)},
      {"e4m3_128_tokens_table_warpgroup", kFused, rows(128), fused(1, 0, 128, 2, 128, 2, 4, 3, 4)},
      {"e4m3_64_tokens_five_warpgroups_table_warpgroup", kFused, rows(64), fused(1, 0, 64, 5, 64, 2, 3, 0, 4)},
      {"bf16_128_tokens_table_warpgroup", kExact, rows(128, Precision::kExact), fused(2, 0, 128, 2, 64, 2, 4, 3, 4)},
      {"s8_scales_of_4096_k_five_warpgroups", kFused, deep(32), fused(0, 4096, 32, 5, 64, 2, 3, 0, 4)},
      {"s8_64_tokens_three_warpgroups_table_warpgroup", kFused, rows(64), fused(0, 0, 64, 3, 64, 2, 4, 2, 4)},
      {"bf16_32_tokens_five_warpgroups", kExact, rows(32, Precision::kExact), fused(2, 0, 32, 5, 64, 2, 3, 0, 4)},
      {"e4m3_256_tokens", kFused, rows(512), fused(1, 0, 256, 2, 64, 2, 4)},
      {"e4m3_64_tokens", kFused, rows(64), fused(1, 0, 64, 3, 128, 2, 4)},
      {"e4m3_scales_of_256_k", kFused, rows(512), fused(1, 256, 128, 2, 64, 2, 4)},
      {"e4m3_promoted", kFused, deep(128), fused(1, 4096, 128, 2, 64, 2, 4)},
      {"e4m3_promoted_many_tokens", kFused, deep(512), fused(1, 4096, 176, 2, 64, 2, 4)},
      {"s8_ragged_rows", kFused, {4097, 4096, 512, Precision::kInt8, true}, fused(0, 0, 192, 2, 64, 2, 4)},
      {"bf16_256_tokens", kExact, rows(512, Precision::kExact), fused(2, 0, 256, 2, 64, 2, 3)},
      {"bf16_128_tokens", kExact, rows(512, Precision::kExact), fused(2, 0, 128, 2, 64, 2, 4)},
      {"bf16_16_tokens", kExact, rows(16, Precision::kExact), fused(2, 0, 16, 2, 64, 2, 6)},
      {"s8_256_tokens_pairs", kFused, rows(512), fused(0, 0, 256, 2, 64, 2, 4, 3)},
      {"s8_128_tokens_pairs", kFused, rows(256), fused(0, 0, 128, 2, 64, 2, 4, 3)},
      {"s8_64_tokens_pairs", kFused, rows(128), fused(0, 0, 64, 2, 128, 2, 6, 3)},
      {"s8_32_tokens_pairs_four_warpgroups", kFused, rows(32), fused(0, 0, 32, 4, 64, 2, 3, 3)},
      {"s8_scales_of_4096_k_pairs", kFused, deep(256), fused(0, 4096, 128, 2, 128, 2, 4, 3)},
      {"e4m3_256_tokens_pairs", kFused, rows(512), fused(1, 0, 256, 2, 64, 2, 4, 3)},
      {"bf16_128_tokens_pairs", kExact, rows(256, Precision::kExact), fused(2, 0, 128, 2, 64, 2, 4, 3)},
      {"default_int8", kFused, rows(300, Precision::kInt8), {}},
      {"default_fp8", kFused, rows(40, Precision::kFp8), {}},
      {"default_exact", kExact, rows(1, Precision::kExact), {}},
      {"small_m_1", kSmallM, rows(1), {}},
      {"small_m_16", kSmallM, rows(16), {}},
      {"small_m_32", kSmallM, rows(32), {}},
      {"two_pass_s8_256_tokens", kTwoPass, rows(512), twoPass(0, 256, 2, 0)},
      {"two_pass_s8_192_tokens_three_warpgroups", kTwoPass, rows(512), twoPass(0, 192, 3, 0)},
      {"two_pass_s8_128_tokens_four_warpgroups", kTwoPass, rows(512), twoPass(0, 128, 4, 2)},
      {"two_pass_s8_64_tokens", kTwoPass, rows(64), twoPass(0, 64, 2, 2)},
      {"two_pass_s8_256_tokens_pairs", kTwoPass, rows(512), twoPass(0, 256, 2, 3)},
      {"two_pass_s8_ragged_rows", kTwoPass, {4097, 4096, 512, Precision::kInt8, true}, twoPass(0, 192, 2, 0)},
      {"two_pass_e4m3_256_tokens", kTwoPass, rows(512), twoPass(1, 256, 2, 0)},
      {"two_pass_e4m3_128_tokens_four_warpgroups_pairs", kTwoPass, rows(512), twoPass(1, 128, 4, 3)},
      {"two_pass_e4m3_16_tokens", kTwoPass, rows(16), twoPass(1, 16, 2, 2)},
      {"two_pass_default_int8", kTwoPass, rows(300, Precision::kInt8), {}},
      {"two_pass_default_fp8", kTwoPass, rows(40, Precision::kFp8), {}},
  };
}

void PrintTo(const Family& family, std::ostream* stream) {
  *stream << family.name;
}

class Q4kLinearBuild : public testing::TestWithParam<Family> {};

TEST_P(Q4kLinearBuild, isClean) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const Family& family = GetParam();
  const Template* kernelTemplate = findTemplate(family.templateId);
  ASSERT_NE(kernelTemplate, nullptr);
  const Problem problem{.operation = Operation::kQ4kLinear, .linear = family.shape};
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const auto refusal = kernelTemplate->refuses(problem, device);
  ASSERT_FALSE(refusal) << refusal->reason;
  const Configuration configuration =
      family.configuration.empty() ? kernelTemplate->defaultConfiguration(problem, device) : family.configuration;
  const auto refused = kernelTemplate->refusesConfiguration(problem, device, configuration);
  ASSERT_FALSE(refused) << refused->reason;

  for (const BuildRequest& request : kernelTemplate->buildRequests(problem, device, configuration, SourceCatalog())) {
    const auto binary = (*compiler)->build(request);
    ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
    const auto unclean = refusesBinary(*kernelTemplate, *binary);
    EXPECT_FALSE(unclean) << unclean->reason;
  }
}

/// A template with problems that together open its whole space.
struct Space {
  const char* name;
  const char* templateId;
  std::vector<LinearShape> shapes;
};

void PrintTo(const Space& space, std::ostream* stream) {
  *stream << space.name;
}

class Q4kLinearSpace : public testing::TestWithParam<Space> {};

TEST_P(Q4kLinearSpace, everyValueOfAParameterHasACleanBuild) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const Template& kernelTemplate = *findTemplate(GetParam().templateId);
  const DeviceInfo device = nominalDevice("sm_90a").value();
  constexpr int kTries = 3;  // builds of a value that may be unclean before a clean one
  std::map<std::string, bool> built;
  std::map<std::string, int> unclean;
  std::set<std::string> values, clean;
  for (const LinearShape& shape : GetParam().shapes) {
    const Problem problem{.operation = Operation::kQ4kLinear, .linear = shape};
    for (const Configuration& configuration : enumerateConfigurations(kernelTemplate, problem, device)) {
      std::set<std::string> own;
      for (const auto& [name, value] : configuration.entries()) own.insert(fmt::format("{}={}", name, value));
      values.insert(own.begin(), own.end());
      const bool isNews = std::ranges::any_of(
          own, [&](const std::string& each) { return !clean.contains(each) && unclean[each] < kTries; });
      if (!isNews) continue;
      for (const BuildRequest& request :
           kernelTemplate.buildRequests(problem, device, configuration, SourceCatalog())) {
        const auto [place, isNew] = built.try_emplace(buildKey(request, ""), true);
        if (isNew) {
          const auto binary = (*compiler)->build(request);
          ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
          place->second = !refusesBinary(kernelTemplate, *binary);
          if (!place->second) {
            for (const std::string& each : own) ++unclean[each];
          }
        }
        if (!place->second) own.clear();
      }
      clean.merge(own);
    }
  }
  EXPECT_GT(values.size(), 10U);
  for (const std::string& each : values) EXPECT_TRUE(clean.contains(each)) << "no build with " << each << " is clean";
}

INSTANTIATE_TEST_SUITE_P(
    Spaces, Q4kLinearSpace,
    testing::Values(
        Space{"s8",
              "q4k_linear.fused_sm90",
              {rows(512, Precision::kInt8), rows(16, Precision::kInt8), {4097, 4096, 133, Precision::kInt8}}},
        Space{"s8_deep", "q4k_linear.fused_sm90", {{4096, 8192, 300, Precision::kInt8, true}}},
        Space{"e4m3", "q4k_linear.fused_sm90", {rows(512, Precision::kFp8), rows(16, Precision::kFp8)}},
        Space{"bf16", "q4k_linear.exact_sm90", {rows(512, Precision::kExact), rows(16, Precision::kExact)}},
        Space{"two_pass_s8",
              "q4k_linear.two_pass_sm90",
              {rows(512, Precision::kInt8), rows(16, Precision::kInt8), {4097, 4096, 133, Precision::kInt8}}},
        Space{"two_pass_e4m3", "q4k_linear.two_pass_sm90", {rows(512, Precision::kFp8), rows(16, Precision::kFp8)}},
        Space{"small_m_1", "q4k_linear.small_m_sm90", {rows(1), {39936, 4096, 1, Precision::kInt8}}},
        Space{"small_m_32", "q4k_linear.small_m_sm90", {rows(32), {39936, 4096, 9, Precision::kInt8}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Q4kLinearSm90, aPlantedSpillFailsABuild) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const Template& kernelTemplate = *findTemplate("q4k_linear.fused_sm90");
  const Problem problem{.operation = Operation::kQ4kLinear, .linear = rows(512)};
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Configuration configuration = fused(0, 0, 128, 2, 128, 2, 4);
  BuildRequest request = kernelTemplate.buildRequests(problem, device, configuration, SourceCatalog()).back();
  // 200 live values in the 64 registers of 1024 threads.
  request.source += R"(
extern "C" __global__ void __launch_bounds__(1024) planted(float* p) {
  float v[200];
  #pragma unroll
  for (int i = 0; i < 200; ++i) v[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 200; ++i) p[i * 1024 + threadIdx.x] = v[i] * v[(i + 7) % 200];
}
)";
  request.entries.emplace_back("planted");
  const auto binary = (*compiler)->build(request);
  ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
  const auto unclean = refusesBinary(kernelTemplate, *binary);
  ASSERT_TRUE(unclean);
  EXPECT_EQ(unclean->constraint, "no_spills");
  EXPECT_NE(unclean->reason.find("planted spills"), std::string::npos) << unclean->reason;
}

TEST(Q4kLinearSm90, uncleanBuildsAreRefusedByName) {
  const Template& kernelTemplate = *findTemplate("q4k_linear.fused_sm90");
  const auto refusal = [&](KernelResources kernel, std::vector<std::string> warnings = {}) {
    Binary binary;
    binary.kernels = {std::move(kernel)};
    binary.warnings = std::move(warnings);
    const auto found = refusesBinary(kernelTemplate, binary);
    return found ? found->constraint : std::string();
  };
  EXPECT_EQ(refusal({.entry = "k", .registers = 168}), "");
  EXPECT_EQ(refusal({.entry = "k", .spillBytes = 4}), "no_spills");
  EXPECT_EQ(refusal({.entry = "k", .stackBytes = 8}), "no_stack_frame");
  EXPECT_EQ(refusal({.entry = "k"}, {"ptxas info: (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
                                     "serialized due to insufficient register resources"}),
            "no_serialized_wgmma");
}

INSTANTIATE_TEST_SUITE_P(Families, Q4kLinearBuild, testing::ValuesIn(families()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Q4kLinearSm90, refusesByName) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const auto refusal = [&](const char* id, Problem problem) {
    const auto found = findTemplate(id)->refuses(problem, device);
    return found ? found->constraint : std::string();
  };
  const Problem problem{.operation = Operation::kQ4kLinear, .linear = rows(16)};
  Problem unaligned = problem, exact = problem, many = problem;
  unaligned.alignment = Alignment::kAny;
  exact.linear.precision = Precision::kExact;
  many.linear.m = 33;
  EXPECT_EQ(refusal("q4k_linear.fused_sm90", problem), "");
  EXPECT_EQ(refusal("q4k_linear.fused_sm90", unaligned), "alignment");
  EXPECT_EQ(refusal("q4k_linear.fused_sm90", exact), "precision");
  EXPECT_EQ(refusal("q4k_linear.exact_sm90", exact), "");
  EXPECT_EQ(refusal("q4k_linear.small_m_sm90", many), "tokens");
  EXPECT_EQ(findTemplate("q4k_linear.fused_sm90")->refuses(problem, nominalDevice("sm_80").value())->constraint,
            "target");
}

TEST(Q4kLinearSm90, clustersNeedTilesToHalve) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const auto refusal = [&](LinearShape shape, std::int64_t tokens) {
    const auto found = findTemplate("q4k_linear.fused_sm90")
                           ->refusesConfiguration({.operation = Operation::kQ4kLinear, .linear = shape}, device,
                                                  fused(0, 0, tokens, 2, 64, 2, 4, 3));
    return found ? found->constraint : std::string();
  };
  const LinearShape halves = rows(512), wholes = {4096, 4096, 1056, Precision::kFast, false};
  EXPECT_EQ(refusal(halves, 256), "");
  EXPECT_EQ(refusal(halves, 128), "cluster_tiles");  // 128 tiles on 132 SMs
  EXPECT_EQ(refusal(wholes, 256), "");               // 160: a round of whole ones, 28 in halves
  EXPECT_EQ(refusal({1638, 4096, 512, Precision::kFast, false}, 128), "cluster_ragged");
  EXPECT_EQ(refusal(rows(16), 16), "cluster_tokens");
}

TEST(Q4kLinearSm90, fiveWarpgroupsBesideOneForTheTableDoNotSplit) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Problem problem{.operation = Operation::kQ4kLinear, .linear = rows(64)};
  const auto refusal = [&](std::int64_t warpgroups, std::int64_t split, std::int64_t tableWarps) {
    const auto found =
        findTemplate("q4k_linear.fused_sm90")
            ->refusesConfiguration(problem, device, fused(0, 0, 64, warpgroups, 64, 2, 3, split, tableWarps));
    return found ? found->constraint : std::string();
  };
  EXPECT_EQ(refusal(5, 0, 4), "");
  EXPECT_EQ(refusal(5, 2, 2), "");
  EXPECT_EQ(refusal(4, 2, 4), "");
  EXPECT_EQ(refusal(5, 2, 4), "table_splits");
  EXPECT_EQ(refusal(5, 1, 4), "table_splits");
  EXPECT_EQ(refusal(5, 3, 4), "table_splits");
}

class Q4kLinearDefaults : public testing::TestWithParam<const char*> {};

TEST_P(Q4kLinearDefaults, areClean) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Template& kernelTemplate = *findTemplate(GetParam());
  std::set<std::string> built;
  const auto expectClean = [&](const Problem& problem) {
    if (kernelTemplate.refuses(problem, device)) return;
    const Configuration configuration = kernelTemplate.defaultConfiguration(problem, device);
    const auto refused = kernelTemplate.refusesConfiguration(problem, device, configuration);
    ASSERT_FALSE(refused) << refused->reason;
    for (const BuildRequest& request : kernelTemplate.buildRequests(problem, device, configuration, SourceCatalog())) {
      if (!built.insert(buildKey(request, "")).second) continue;
      const auto binary = (*compiler)->build(request);
      ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
      const auto unclean = refusesBinary(kernelTemplate, *binary);
      EXPECT_FALSE(unclean) << configuration.text() << ": " << unclean->reason;
    }
  };
  for (const std::int64_t n : {4096, 6656, 14336, 39936, 39937}) {
    for (const std::int64_t k : {4096, 19968}) {
      for (const std::int64_t m : {1, 17, 64, 128, 133, 256, 512, 1024, 2048, 4096}) {
        for (const Precision precision : {Precision::kInt8, Precision::kFp8, Precision::kExact}) {
          expectClean({.operation = Operation::kQ4kLinear, .linear = {n, k, m, precision, false}});
        }
      }
    }
  }
  EXPECT_GT(built.size(), 6U);
}

INSTANTIATE_TEST_SUITE_P(Templates, Q4kLinearDefaults,
                         testing::Values("q4k_linear.fused_sm90", "q4k_linear.exact_sm90", "q4k_linear.two_pass_sm90"),
                         [](const auto& info) {
                           return std::string(info.param).substr(std::string("q4k_linear.").size());
                         });

TEST(Q4kLinearSm90, twoPassesTakeLongerRowsWithOneScale) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Template& kernelTemplate = *findTemplate("q4k_linear.two_pass_sm90");
  Problem problem{.operation = Operation::kQ4kLinear, .linear = rows(128, Precision::kInt8)};
  problem.linear.k = 20480;
  EXPECT_FALSE(kernelTemplate.refuses(problem, device));
  EXPECT_FALSE(
      kernelTemplate.refusesConfiguration(problem, device, kernelTemplate.defaultConfiguration(problem, device)));
  problem.linear.k += 256;
  ASSERT_TRUE(kernelTemplate.refuses(problem, device));
  EXPECT_EQ(kernelTemplate.refuses(problem, device)->constraint, "s8_scale");
  // With both allowed, only e4m3 is left.
  problem.linear.precision = Precision::kFast;
  ASSERT_FALSE(kernelTemplate.refuses(problem, device));
  EXPECT_EQ(kernelTemplate.refusesConfiguration(problem, device, twoPass(0, 128, 2, 0))->constraint, "s8_scale");
  EXPECT_EQ(kernelTemplate.defaultConfiguration(problem, device)["arithmetic"], 1);
}

TEST(Q4kLinearSm90, refusesOneScaleForLongRows) {
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const Template& kernelTemplate = *findTemplate("q4k_linear.fused_sm90");
  Problem problem{.operation = Operation::kQ4kLinear, .linear = rows(128, Precision::kInt8)};
  problem.linear.k = 19968;
  const auto refused = kernelTemplate.refusesConfiguration(problem, device, fused(0, 0, 128, 2, 128, 2, 4));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->constraint, "s8_scale");
  EXPECT_FALSE(
      kernelTemplate.refusesConfiguration(problem, device, kernelTemplate.defaultConfiguration(problem, device)));
}

}  // namespace
}  // namespace tilewright
