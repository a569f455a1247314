// Problem: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in Q4_K; fused_sm90.cu explains the kernel. Two templates
// over it: fused_sm90 (FP8 or INT8) and exact_sm90 (BF16).
#include "templates/q4k_linear/fused_sm90.h"

#include <array>

#include "templates/q4k_linear/fused_template.h"

namespace tilewright {
namespace {

// Longest k with one s8 scale per token and row. Both grow with the largest of k values, and with them the error: on
// normal data 1.33 % at 6656, 1.39 % at 14336 and 1.43 % at 19968, where int8 allows 1.4 %.
constexpr std::int64_t kLongestS8 = 16384;
static_assert(kLongestS8 <= std::int64_t{4} * 4096, "the mask of a group's outliers has at most four words");

/// W from super-blocks, converted in registers.
class InRegisters : public FusedTemplate {
 public:
  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override;
  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override;

 protected:
  FusedTile tile(const Configuration& configuration) const override { return FusedTile(configuration); }
  std::optional<Refusal> refusesTile(const FusedTile& tile, const LinearShape& shape) const override;
};

class FusedSm90 final : public InRegisters {
 public:
  std::string_view id() const override { return "q4k_linear.fused_sm90"; }
  std::string_view summary() const override {
    return "Hopper: Q4_K to s8 or e4m3 in registers as the A operand of wgmma, activations quantized in the call";
  }

 protected:
  std::vector<std::int64_t> arithmetics(Precision precision) const override { return byteArithmetics(precision); }
};

class ExactSm90 final : public InRegisters {
 public:
  std::string_view id() const override { return "q4k_linear.exact_sm90"; }
  std::string_view summary() const override {
    return "Hopper: Q4_K to BF16 in registers as the A operand of wgmma, the caller's BF16 activations";
  }

 protected:
  std::vector<std::int64_t> arithmetics(Precision) const override {
    return {static_cast<std::int64_t>(FusedArithmetic::kBf16)};
  }
};

std::vector<Parameter> InRegisters::parameters(const Problem& problem, const DeviceInfo&) const {
  const std::vector<std::int64_t> values = arithmetics(problem.linear.precision);
  const bool scales = values.front() != static_cast<std::int64_t>(FusedArithmetic::kBf16);
  return {
      {"arithmetic", "operands of the product: 0 s8, 1 e4m3, 2 bf16", values},
      {"scale_k", "k per activation scale and between promotions of sums to fp32: 0 all of them",
       scales ? std::vector<std::int64_t>{0, 4096, 256} : std::vector<std::int64_t>{0}},
      {"tokens", "rows of x of a tile", {256, 16, 32, 64, 128, 176, 192, 224}},
      {"warpgroups", "consumer warpgroups of a block, 64 rows of W each", {2, 3, 4, 5}},
      {"step_k", "k between waits for products", {64, 128, 256}},
      {"buffers", "sets of A registers: 2 convert under the own products, 1 under the others'", {2, 1}},
      {"stages_w", "super-blocks of k in the ring of weights", {4, 3, 6}},
      {"table_warps",
       "warps that unpack the super-blocks' factors: 2 in the producers' warpgroup, 4 in one of their own",
       {2, 4}},
      {"split",
       "cuts along k: 0 none, 1 equal shares for all blocks, 2 equal slices of a tile, 3 halves of a tile for the two "
       "blocks of a cluster",
       {0, 2, 3, 1}}};
}

std::optional<Refusal> InRegisters::refusesTile(const FusedTile& tile, const LinearShape& shape) const {
  if (tile.promotes() && tile.isBf16()) return Refusal{"scale_k", "bf16 has no scales"};
  if (tile.promotes() && tile.scaleK >= shape.k) {
    return Refusal{"scale_k",
                   fmt::format("scale_k is {} for k = {}, the same as one scale per token", tile.scaleK, shape.k)};
  }
  if (tile.isS8() && !tile.promotes() && shape.k > kLongestS8) {
    return Refusal{"s8_scale",
                   fmt::format("k is {}, one s8 scale per token and row serves at most {}", shape.k, kLongestS8)};
  }
  if (tile.buffers == 1 ? tile.stepK == 64 : tile.stepK == 256) {
    return Refusal{"step_k", fmt::format("step_k is {} with {} buffers: two buffers take 64 or 128, one 128 or 256",
                                         tile.stepK, tile.buffers)};
  }
  if (!tile.canSplit() && tile.splitMode != SplitMode::kNone) {
    return Refusal{"table_splits",
                   fmt::format("split is {}, must be 0: {} warpgroups and one for the table leave no registers for it",
                               static_cast<std::int64_t>(tile.splitMode), tile.warpgroups)};
  }
  if (tile.isBf16() && tile.buffers == 2 && tile.stepK != 64) {
    return Refusal{"step_stage",
                   fmt::format("step_k is {}, with two buffers a step must lie in one stage of bf16 activations, 64 k",
                               tile.stepK)};
  }
  return std::nullopt;
}

Configuration InRegisters::defaultConfiguration(const Problem& problem, const DeviceInfo& device) const {
  // tokens, warpgroups, step_k, buffers, stages_w, table_warps of the configurations that win somewhere.
  constexpr std::array<std::array<std::int64_t, 6>, 11> kUsual = {{{256, 2, 64, 2, 4, 2},
                                                                   {256, 2, 64, 2, 3, 2},
                                                                   {128, 2, 128, 2, 4, 4},
                                                                   {64, 2, 128, 2, 6, 2},
                                                                   {64, 2, 64, 2, 4, 2},
                                                                   {64, 5, 64, 2, 3, 4},
                                                                   {32, 5, 64, 2, 3, 4},
                                                                   {16, 5, 64, 2, 3, 4},
                                                                   {32, 2, 128, 2, 6, 2},
                                                                   {16, 2, 256, 1, 6, 2},
                                                                   {16, 2, 64, 2, 6, 2}}};
  const std::int64_t arithmetic = arithmetics(problem.linear.precision).front();
  std::vector<Configuration> candidates;
  for (const auto& usual : kUsual) {
    for (const std::int64_t stepK : {usual[2], std::int64_t{64}}) {
      // A step of BF16 takes twice the registers and the time of one of bytes.
      if (arithmetic == static_cast<std::int64_t>(FusedArithmetic::kBf16) && stepK != 64) continue;
      for (const std::int64_t scaleK : {0, 4096}) {
        for (const std::int64_t split : {0, 2, 3, 1}) {
          candidates.push_back(Configuration({{"arithmetic", arithmetic},
                                              {"scale_k", scaleK},
                                              {"tokens", usual[0]},
                                              {"warpgroups", usual[1]},
                                              {"step_k", stepK},
                                              {"buffers", usual[3]},
                                              {"stages_w", usual[4]},
                                              {"table_warps", usual[5]},
                                              {"split", split}}));
        }
      }
    }
  }
  return fastest(problem, device, candidates);
}

}  // namespace

const Template& q4kLinearFusedSm90() {
  static const FusedSm90 kTemplate;
  return kTemplate;
}

const Template& q4kLinearExactSm90() {
  static const ExactSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
