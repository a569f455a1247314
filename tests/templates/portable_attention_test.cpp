// attention.portable: every edge with the default configuration on every level of x86-64, and one problem with tails
// over a spread of the configuration space.
#include "templates/attention/portable.h"
#include "tests/templates/portable_run.h"

namespace tilewright {
namespace {

struct Heads {
  std::int64_t batch, q, kv, dim;
};

Problem problemOf(Heads heads, std::int64_t qLen, std::int64_t kvLen, bool causal) {
  return {.operation = Operation::kAttention,
          .alignment = Alignment::kAny,
          .attention = {.batch = heads.batch,
                        .qHeads = heads.q,
                        .kvHeads = heads.kv,
                        .headDim = heads.dim,
                        .qLen = qLen,
                        .kvLen = kvLen,
                        .causal = causal,
                        .logSumExp = true}};
}

/// A layout whose inner stride is `step`: [b, l, h, d] with every column `step` elements apart.
Strides spread(std::int64_t heads, std::int64_t length, std::int64_t headDim, std::int64_t step) {
  const std::int64_t row = headDim * step;
  return {.batch = length * heads * row, .head = row, .row = heads * row, .column = step};
}

class PortableAttention : public PortableRun {};

TEST_F(PortableAttention, computesEveryEdge) {
  const std::vector<PortableCase> cases{
      {"one_of_each", problemOf({1, 1, 1, 8}, 1, 1, false), {}},
      {"no_rows", problemOf({1, 2, 1, 16}, 0, 7, true), {}},
      {"no_batch", problemOf({0, 2, 1, 16}, 3, 7, true), {}},
      {"kv_zero", problemOf({2, 2, 1, 64}, 5, 0, true), {}},
      {"tails", problemOf({1, 2, 1, 128}, 113, 211, false), {}},
      {"tails_causal", problemOf({1, 2, 1, 128}, 113, 211, true), {}},
      {"more_rows_than_keys", problemOf({1, 2, 2, 64}, 150, 70, true), {}},
      {"decode_packed", problemOf({2, 8, 2, 128}, 1, 333, true), {}},
      {"decode_group_7", problemOf({1, 14, 2, 64}, 2, 99, true), {}},
      {"decode_one_head_each", problemOf({2, 3, 3, 64}, 1, 130, false), {}},
      {"head_dim_72", problemOf({1, 2, 1, 72}, 40, 90, true), {}},
      {"head_dim_256", problemOf({1, 2, 1, 256}, 33, 65, true), {}},
      {"head_dim_24", problemOf({1, 4, 1, 24}, 70, 65, false), {}},
      {"kv_len_differs", problemOf({4, 4, 2, 64}, 20, 100, true), {.capacity = 128, .kvLens = {0, 1, 64, 1000}}},
      {"kv_len_negative", problemOf({2, 2, 1, 64}, 3, 40, false), {.capacity = 40, .kvLens = {-5, 39}}},
      {"scores_deeply_negative",
       problemOf({1, 2, 1, 64}, 17, 80, true),
       {.scores = reference::Scores::kDeeplyNegative}},
      {"stride_odd",
       problemOf({2, 4, 2, 40}, 21, 77, true),
       {.baseOffset = 1,
        .qStrides = reference::rowMajorStrides(4, 21, 40, 3),
        .kStrides = reference::rowMajorStrides(2, 77, 40, 5),
        .vStrides = reference::headMajorStrides(2, 77, 40, 7),
        .outStrides = reference::rowMajorStrides(4, 21, 40, 1)}},
      {"stride_inner",
       problemOf({1, 4, 2, 16}, 19, 45, true),
       {.qStrides = spread(4, 19, 16, 2),
        .kStrides = spread(2, 45, 16, 3),
        .vStrides = spread(2, 45, 16, 2),
        .outStrides = spread(4, 19, 16, 2)}},
  };
  for (const PortableCase& each : cases) {
    for (const std::string& target : targets()) {
      const DeviceInfo device = deviceFor(target);
      ASSERT_FALSE(attentionPortable().refuses(each.problem, device)) << each.name;
      check(attentionPortable(), each, device, attentionPortable().defaultConfiguration(each.problem, device));
    }
  }
}

TEST_F(PortableAttention, computesTailsWithEveryKindOfConfiguration) {
  const PortableCase each{"tails", problemOf({2, 6, 2, 80}, 75, 133, true), {.baseOffset = 1, .kvLens = {133, 77}}};
  const auto operands = reference::makeOperands(each.problem, each.options);
  ASSERT_TRUE(operands) << operands.error().message;
  const auto expected = reference::Expectation::compute(*operands, {});
  for (const std::string& target : targets()) {
    const DeviceInfo device = deviceFor(target);
    const auto space = enumerateConfigurations(attentionPortable(), each.problem, device);
    constexpr std::size_t kCount = 24;
    ASSERT_GT(space.size(), kCount);
    for (std::size_t i = 0; i < space.size(); i += space.size() / kCount) {
      check(attentionPortable(), expected, *operands, device, space[i]);
    }
  }
}

TEST_F(PortableAttention, refusesByName) {
  const DeviceInfo cpu = deviceFor(targets().back());
  const Problem problem = problemOf({1, 4, 2, 64}, 100, 100, true);
  DeviceInfo gpu = cpu;
  gpu.kind = DeviceKind::kCuda, gpu.target = "sm_90a";
  EXPECT_EQ(attentionPortable().refuses(problem, gpu)->constraint, "target");

  const Configuration good = attentionPortable().defaultConfiguration(problem, cpu);
  const auto refusalWith = [&](std::string_view name, std::int64_t value) {
    Configuration changed = good;
    changed.set(name, value);
    const auto refusal = attentionPortable().refusesConfiguration(problem, cpu, changed);
    return refusal ? refusal->constraint : "";
  };
  EXPECT_EQ(refusalWith("tile_kv", 128), "");
  EXPECT_EQ(refusalWith("tile_kv", 48), "tile_kv");
  EXPECT_EQ(refusalWith("pack_heads", 1), "tile_m");
  EXPECT_EQ(refusalWith("swizzle", 1), "parameters");
}

}  // namespace
}  // namespace tilewright
