// A representative of every family of configurations of the Hopper attention templates compiles, without spills, stack
// frames or serialized wgmma; the generated source asserts that host and device agree on shared memory, threads and
// arguments.
#include <gtest/gtest.h>

#include "compiler/nvrtc/nvrtc_compiler.h"
#include "templates/attention/decode_sm90.h"
#include "templates/attention/tma_sm90.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

struct Family {
  const char* name;
  const Template& (*kernelTemplate)();
  std::int64_t headDim;
  bool causal, logSumExp;
  std::vector<Configuration::Entry> settings;  ///< over the default configuration
};

void PrintTo(const Family& family, std::ostream* stream) {
  *stream << family.name;
}

Problem problemOf(const Family& family) {
  Problem problem;
  problem.operation = Operation::kAttention;
  const bool decode = &family.kernelTemplate() == &attentionDecodeSm90();
  problem.attention = {.batch = 2,
                       .qHeads = 16,
                       .kvHeads = 2,
                       .headDim = family.headDim,
                       .qLen = decode ? 4 : 4096,
                       .kvLen = 8192,
                       .causal = family.causal,
                       .logSumExp = family.logSumExp};
  return problem;
}

class AttentionBuild : public testing::TestWithParam<Family> {};

TEST_P(AttentionBuild, isClean) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const Family& family = GetParam();
  const Template& kernelTemplate = family.kernelTemplate();
  const Problem problem = problemOf(family);
  const DeviceInfo device = nominalDevice("sm_90a").value();
  Configuration configuration = kernelTemplate.defaultConfiguration(problem, device);
  for (const auto& [name, value] : family.settings) configuration.set(name, value);
  const auto refusal = kernelTemplate.refusesConfiguration(problem, device, configuration);
  ASSERT_FALSE(refusal) << refusal->reason;

  for (const BuildRequest& request : kernelTemplate.buildRequests(problem, device, configuration, SourceCatalog())) {
    const auto binary = (*compiler)->build(request);
    ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
    const auto unclean = refusesBinary(kernelTemplate, *binary);
    EXPECT_FALSE(unclean) << unclean->reason << "\n" << binary->log;
    EXPECT_EQ(binary->kernels.size(), request.entries.size());
  }
}

constexpr auto kTma = attentionTmaSm90;
constexpr auto kDecode = attentionDecodeSm90;

// tile_m, tile_n, stages, q_registers, cluster, pack_heads, ping_pong, schedule.
std::vector<Configuration::Entry> tma(std::int64_t tileM, std::int64_t tileN, std::int64_t stages,
                                      std::int64_t qRegisters, std::int64_t cluster, std::int64_t packHeads,
                                      std::int64_t pingPong, std::int64_t schedule) {
  return {{"tile_m", tileM},    {"tile_n", tileN},         {"stages", stages},      {"q_registers", qRegisters},
          {"cluster", cluster}, {"pack_heads", packHeads}, {"ping_pong", pingPong}, {"schedule", schedule}};
}

INSTANTIATE_TEST_SUITE_P(
    Families, AttentionBuild,
    testing::Values(Family{"tma_d64", kTma, 64, true, false, tma(192, 128, 3, 0, 1, 1, 1, 1)},
                    Family{"tma_d64_cut", kTma, 64, true, true, tma(192, 128, 3, 0, 2, 1, 1, 2)},
                    Family{"tma_d64_full", kTma, 64, false, true, tma(128, 128, 3, 0, 1, 2, 0, 0)},
                    Family{"tma_d128_wide", kTma, 128, true, false, tma(192, 80, 3, 0, 1, 1, 0, 1)},
                    Family{"tma_d128_wide_cut", kTma, 128, true, true, tma(192, 80, 3, 0, 2, 1, 0, 2)},
                    Family{"tma_d128_registers", kTma, 128, true, true, tma(128, 128, 3, 1, 2, 1, 1, 1)},
                    Family{"tma_d128_narrow_cut", kTma, 128, true, true, tma(128, 128, 2, 0, 2, 1, 1, 2)},
                    Family{"tma_d128_packed", kTma, 128, true, false, tma(128, 128, 3, 1, 1, 8, 1, 1)},
                    Family{"tma_d128_full", kTma, 128, false, false, tma(192, 80, 3, 0, 1, 1, 0, 1)},
                    Family{"tma_d256", kTma, 256, true, false, tma(128, 80, 2, 0, 1, 1, 0, 1)},
                    Family{"tma_d256_cut", kTma, 256, true, true, tma(128, 80, 2, 0, 2, 1, 1, 2)},
                    Family{"decode_d64", kDecode, 64, true, true, {{"row_tile", 16}}},
                    Family{"decode_d128", kDecode, 128, false, false, {{"row_tile", 16}, {"warps", 4}}},
                    Family{"decode_d128_rows", kDecode, 128, true, true, {}},
                    Family{"decode_d128_cluster", kDecode, 128, true, true, {{"row_tile", 16}, {"cluster", 8}}},
                    Family{"decode_d256", kDecode, 256, true, true, {}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilewright
