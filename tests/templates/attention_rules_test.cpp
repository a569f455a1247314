// What the Hopper attention templates accept, refuse and launch, read from their host halves.
#include <gtest/gtest.h>

#include "templates/attention/decode_sm90.h"
#include "templates/attention/tma_sm90.h"

namespace tilewright {
namespace {

const DeviceInfo kHopper = nominalDevice("sm_90a").value();

Problem attention(std::int64_t batch, std::int64_t qHeads, std::int64_t kvHeads, std::int64_t headDim,
                  std::int64_t qLen, std::int64_t kvLen) {
  Problem problem;
  problem.operation = Operation::kAttention;
  problem.attention = {.batch = batch,
                       .qHeads = qHeads,
                       .kvHeads = kvHeads,
                       .headDim = headDim,
                       .qLen = qLen,
                       .kvLen = kvLen,
                       .causal = true};
  return problem;
}

std::string refusedBy(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device = kHopper) {
  const auto refusal = kernelTemplate.refuses(problem, device);
  return refusal ? refusal->constraint : "";
}

LaunchList launchesOf(const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
  Operands operands;
  operands.attention.capacity = problem.attention.kvLen;
  operands.attention.scale = 0.125f;
  LaunchList launches;
  kernelTemplate.encode(problem, kHopper, configuration, operands, nullptr, nullptr, launches);
  return launches;
}

TEST(AttentionRules, nameWhatIsRefused) {
  for (const Template* each : {&attentionTmaSm90(), &attentionDecodeSm90()}) {
    EXPECT_EQ(refusedBy(*each, attention(1, 16, 2, 128, 4, 4096)), "") << each->id();
    EXPECT_EQ(refusedBy(*each, attention(1, 16, 2, 96, 4, 4096)), "head_dim") << each->id();
    EXPECT_EQ(refusedBy(*each, attention(1, 16, 2, 128, 4, std::int64_t{1} << 30)), "sizes") << each->id();
    EXPECT_EQ(refusedBy(*each, attention(1, 16, 2, 128, 4, 4096), nominalDevice("sm_80").value()), "target");
    Problem unaligned = attention(1, 16, 2, 128, 4, 4096);
    unaligned.alignment = Alignment::kAny;
    EXPECT_EQ(refusedBy(*each, unaligned), "alignment") << each->id();
  }
  EXPECT_EQ(refusedBy(attentionDecodeSm90(), attention(1, 16, 2, 128, 17, 4096)), "q_len");
  EXPECT_EQ(refusedBy(attentionTmaSm90(), attention(1, 16, 2, 128, 17, 4096)), "");
}

TEST(AttentionRules, acceptTheDefaultOfEveryProblem) {
  for (const std::int64_t headDim : {64, 128, 256}) {
    for (const std::int64_t group : {1, 2, 7, 8, 16}) {
      for (const std::int64_t qLen : {0, 1, 5, 16, 17, 100, 4096}) {
        for (const std::int64_t kvLen : {0, 1, 777, 131072}) {
          const Problem problem = attention(2, 4 * group, 4, headDim, qLen, kvLen);
          for (const Template* each : {&attentionTmaSm90(), &attentionDecodeSm90()}) {
            if (each->refuses(problem, kHopper)) continue;
            const Configuration configuration = each->defaultConfiguration(problem, kHopper);
            const auto refusal = each->refusesConfiguration(problem, kHopper, configuration);
            EXPECT_FALSE(refusal) << toJson(problem) << ": " << refusal->reason;
            EXPECT_GT(each->predictMicroseconds(problem, kHopper, configuration), 0);
          }
        }
      }
    }
  }
}

// The rows that docs/notes/attention.md has figures of, with the settings of the fastest configuration seen for each.
struct Winner {
  Problem problem;
  const Template& (*kernelTemplate)();
  std::vector<Configuration::Entry> settings;
};

std::vector<Winner> winners() {
  // tile_m, tile_n, cluster, pack_heads, schedule.
  const auto tma = [](std::int64_t tileM, std::int64_t tileN, std::int64_t cluster, std::int64_t packHeads,
                      std::int64_t schedule) -> std::vector<Configuration::Entry> {
    return {
        {"tile_m", tileM}, {"tile_n", tileN}, {"cluster", cluster}, {"pack_heads", packHeads}, {"schedule", schedule}};
  };
  const auto rows = [](std::int64_t rowTile, std::int64_t cluster,
                       std::int64_t tileN) -> std::vector<Configuration::Entry> {
    return {{"row_tile", rowTile}, {"cluster", cluster}, {"tile_n", tileN}};
  };
  constexpr auto kTma = attentionTmaSm90;
  constexpr auto kDecode = attentionDecodeSm90;
  return {{attention(1, 16, 2, 64, 512, 16384), kTma, tma(192, 128, 2, 4, 2)},
          {attention(1, 16, 2, 64, 4096, 131072), kTma, tma(192, 128, 2, 2, 2)},
          {attention(1, 16, 2, 128, 512, 16384), kTma, tma(192, 80, 2, 4, 2)},
          {attention(1, 16, 2, 128, 1024, 131072), kTma, tma(192, 80, 2, 2, 2)},
          {attention(1, 16, 2, 128, 4096, 131072), kTma, tma(192, 80, 2, 4, 2)},
          {attention(1, 32, 2, 128, 4096, 32768), kTma, tma(192, 80, 2, 4, 2)},
          {attention(1, 16, 2, 256, 1024, 16384), kTma, tma(128, 80, 2, 1, 0)},
          {attention(1, 16, 2, 256, 4096, 131072), kTma, tma(128, 80, 2, 2, 2)},
          {attention(1, 64, 8, 128, 2048, 2048), kTma, tma(192, 80, 1, 4, 0)},
          {attention(1, 64, 8, 128, 4096, 4096), kTma, tma(192, 80, 1, 4, 0)},
          {attention(1, 64, 8, 128, 8192, 8192), kTma, tma(192, 80, 1, 4, 1)},
          {attention(1, 64, 8, 128, 16384, 16384), kTma, tma(192, 80, 1, 4, 1)},
          {attention(1, 32, 8, 128, 16384, 16384), kTma, tma(192, 80, 1, 4, 1)},
          {attention(2, 16, 16, 128, 8192, 8192), kTma, tma(192, 80, 1, 1, 1)},
          {attention(4, 16, 16, 64, 8192, 8192), kTma, tma(192, 128, 1, 1, 1)},
          {attention(1, 32, 8, 64, 16384, 16384), kTma, tma(192, 128, 1, 2, 1)},
          {attention(1, 8, 8, 256, 16384, 16384), kTma, tma(128, 80, 1, 1, 1)},
          {attention(1, 16, 8, 256, 8192, 8192), kTma, tma(128, 80, 2, 1, 1)},
          {attention(1, 32, 8, 128, 1, 1024), kDecode, rows(16, 8, 64)},
          {attention(1, 32, 8, 128, 1, 4096), kDecode, rows(16, 8, 128)},
          {attention(1, 32, 8, 128, 1, 16384), kDecode, rows(16, 8, 128)},
          {attention(1, 32, 8, 128, 1, 65536), kDecode, rows(16, 8, 128)},
          {attention(16, 32, 8, 128, 1, 16384), kDecode, rows(16, 1, 64)},
          {attention(1, 32, 8, 128, 16, 1024), kDecode, rows(64, 8, 32)}};
}

// The card's default without a tuning database is what measured best.
TEST(AttentionRules, chooseTheMeasuredWinners) {
  for (const Winner& winner : winners()) {
    const Template* fastest = nullptr;
    double least = 0;
    for (const Template* each : {&attentionTmaSm90(), &attentionDecodeSm90()}) {
      if (each->refuses(winner.problem, kHopper)) continue;
      const double time =
          each->predictMicroseconds(winner.problem, kHopper, each->defaultConfiguration(winner.problem, kHopper));
      if (fastest == nullptr || time < least) fastest = each, least = time;
    }
    ASSERT_EQ(fastest, &winner.kernelTemplate()) << toJson(winner.problem);
    const Configuration chosen = fastest->defaultConfiguration(winner.problem, kHopper);
    for (const auto& [name, value] : winner.settings) {
      EXPECT_EQ(chosen[name], value) << name << " of " << toJson(winner.problem) << ": " << chosen.text();
    }
  }
}

TEST(AttentionRules, refuseConfigurationsThatDoNotFit) {
  const Template& tma = attentionTmaSm90();
  const Problem problem = attention(1, 14, 2, 128, 4096, 4096);
  const auto refused = [&](std::string_view name, std::int64_t value) {
    Configuration configuration = tma.defaultConfiguration(problem, kHopper);
    configuration.set("tile_m", 192), configuration.set("tile_n", 80), configuration.set("stages", 3);
    configuration.set("q_registers", 0), configuration.set("cluster", 1), configuration.set("pack_heads", 1);
    if (!name.empty()) configuration.set(name, value);
    const auto refusal = tma.refusesConfiguration(problem, kHopper, configuration);
    return refusal ? refusal->constraint : "";
  };
  EXPECT_EQ(refused("", 0), "");
  EXPECT_EQ(refused("cluster", 2), "group");  // a group of 7
  EXPECT_EQ(refused("tile_n", 96), "registers");
  EXPECT_EQ(refused("tile_n", 81), "tile_n");
  EXPECT_EQ(refused("stages", 4), "");  // one Q tile then
  EXPECT_EQ(refused("warps", 4), "parameters");
}

TEST(AttentionRules, launchNothingForEmptyProblems) {
  for (const Template* each : {&attentionTmaSm90(), &attentionDecodeSm90()}) {
    for (const Problem& problem : {attention(0, 16, 2, 128, 4, 4096), attention(1, 16, 2, 128, 0, 4096)}) {
      const Configuration configuration = each->defaultConfiguration(problem, kHopper);
      EXPECT_EQ(launchesOf(*each, problem, configuration).launches().size(), 0u) << each->id();
    }
  }
}

TEST(AttentionRules, launchStreamKCooperativelyWithZeroedFlags) {
  const Template& tma = attentionTmaSm90();
  const Problem problem = attention(1, 16, 2, 128, 512, 16384);
  Configuration configuration = tma.defaultConfiguration(problem, kHopper);
  configuration.set("schedule", 2);
  LaunchList list = launchesOf(tma, problem, configuration);
  ASSERT_EQ(list.launches().size(), 2u);
  EXPECT_EQ(list.launches()[0].kind, Launch::Kind::kFill);
  EXPECT_EQ(list.launches()[0].fillValue, 0);
  EXPECT_LT(static_cast<std::int64_t>(list.launches()[0].fillBytes),
            tma.workspaceBytes(problem, kHopper, configuration));
  EXPECT_TRUE(list.launches()[1].cooperative);
  EXPECT_LE(list.launches()[1].grid.x, static_cast<std::uint32_t>(kHopper.unitCount));

  // Without waiting for each other, blocks need not be resident.
  configuration.set("schedule", 0);
  list = launchesOf(tma, problem, configuration);
  ASSERT_EQ(list.launches().size(), 1u);
  EXPECT_FALSE(list.launches()[0].cooperative);
  EXPECT_EQ(tma.workspaceBytes(problem, kHopper, configuration), 0);
}

// Only stream-K waits for CTAs outside its cluster, and every launch that does so is one that the driver makes resident
// as a whole or refuses. Decode has no such kernel: its second one waits for the end of the first, as a launch of its
// own.
TEST(AttentionRules, launchCooperativelyWhateverWaitsForOthers) {
  int cooperative = 0;
  for (const std::int64_t headDim : {64, 128, 256}) {
    for (const std::int64_t qLen : {1, 700}) {
      const Problem problem = attention(3, 16, 2, headDim, qLen, 5000);
      for (const Template* each : {&attentionTmaSm90(), &attentionDecodeSm90()}) {
        if (each->refuses(problem, kHopper)) continue;
        for (const Configuration& configuration : enumerateConfigurations(*each, problem, kHopper)) {
          const std::int64_t* schedule = configuration.find("schedule");
          const bool waits = schedule != nullptr && *schedule == 2;
          const LaunchList list = launchesOf(*each, problem, configuration);
          for (const Launch& launch : list.launches()) {
            if (launch.kind != Launch::Kind::kKernel) continue;
            ASSERT_EQ(launch.cooperative, waits) << each->id() << " " << configuration.text();
            if (!waits) continue;
            ASSERT_LE(launch.grid.x, static_cast<std::uint32_t>(kHopper.unitCount)) << configuration.text();
            ++cooperative;
          }
        }
      }
    }
  }
  EXPECT_GT(cooperative, 1000);
}

TEST(AttentionRules, describeTensorsByMapsOfEveryDimension) {
  Operands operands;
  operands.attention.capacity = 70000;
  operands.attention.kStride = {.batch = std::int64_t{1} << 33, .head = 128, .row = 256};
  const auto keyMap = [&](const Template& kernelTemplate, int index) {
    const Problem problem = attention(3, 16, 2, 128, 1, 70000);
    LaunchList list;
    kernelTemplate.encode(problem, kHopper, kernelTemplate.defaultConfiguration(problem, kHopper), operands, nullptr,
                          nullptr, list);
    for (const Launch& launch : list.launches()) {
      if (launch.kind == Launch::Kind::kKernel) return launch.arguments.maps()[index];
    }
    return TensorMap{};
  };
  // Columns, keys, heads, batch: coordinates stay small however far apart the heads are.
  const TensorMap spans = keyMap(attentionTmaSm90(), 1);
  EXPECT_EQ(spans.rank, 4);
  EXPECT_EQ(spans.size, (std::array<std::uint64_t, 5>{128, 70000, 2, 3, 0}));
  EXPECT_EQ(spans.strideBytes, (std::array<std::uint64_t, 4>{512, 256, std::uint64_t{1} << 34, 0}));
  // The same by whole rows of two spans.
  const TensorMap rows = keyMap(attentionDecodeSm90(), 0);
  EXPECT_EQ(rows.rank, 5);
  EXPECT_EQ(rows.size, (std::array<std::uint64_t, 5>{64, 2, 70000, 2, 3}));
  EXPECT_EQ(rows.strideBytes, (std::array<std::uint64_t, 4>{128, 512, 256, std::uint64_t{1} << 34}));
  EXPECT_EQ(rows.box[0], 64u);
  EXPECT_EQ(rows.box[1], 2u);
}

TEST(AttentionRules, combineDecodePartsByKernelOrByCluster) {
  const Template& decode = attentionDecodeSm90();
  const Problem problem = attention(1, 32, 8, 128, 1, 16384);
  Configuration configuration = decode.defaultConfiguration(problem, kHopper);
  configuration.set("stages", 2);
  configuration.set("cluster", 1);
  LaunchList list = launchesOf(decode, problem, configuration);
  ASSERT_EQ(list.launches().size(), 2u);
  EXPECT_TRUE(list.launches()[1].programmaticDependent);
  EXPECT_GT(decode.workspaceBytes(problem, kHopper, configuration), 0);

  configuration.set("cluster", 16);
  list = launchesOf(decode, problem, configuration);
  ASSERT_EQ(list.launches().size(), 1u);
  EXPECT_EQ(list.launches()[0].cluster.x, 16u);
  EXPECT_EQ(list.launches()[0].grid.x, 8u * 16);
  EXPECT_EQ(decode.workspaceBytes(problem, kHopper, configuration), 0);
}

}  // namespace
}  // namespace tilewright
