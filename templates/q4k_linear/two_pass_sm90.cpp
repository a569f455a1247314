// Problem: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in Q4_K; two_pass_sm90.cu explains the kernel, expand.cu
// the pass before it. Pays where W is expanded once and kept (n k bytes), and for so many rows that the pass is cheap.
#include "templates/q4k_linear/two_pass_sm90.h"

#include "templates/q4k_linear/fused_template.h"

namespace tilewright {
namespace {

// Longest k with one s8 scale per token and row. Weights are rounded once here, from single precision, and in the fused
// kernel twice from half precision, so longer rows stay within int8's 1.4 %: 1.35 to 1.40 % were measured at 19968.
constexpr std::int64_t kLongestS8 = 20480;
static_assert(kLongestS8 <= std::int64_t{8} * 4096, "the mask of a tile's outliers has at most eight words");

class TwoPassSm90 final : public FusedTemplate {
 public:
  std::string_view id() const override { return "q4k_linear.two_pass_sm90"; }
  std::string_view summary() const override {
    return "Hopper: W expanded to s8 or e4m3, once or in each call, both operands of wgmma in shared memory";
  }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override {
    if (auto refusal = FusedTemplate::refuses(problem, device)) return refusal;
    if (problem.linear.precision == Precision::kInt8) return refusesLong(problem.linear.k);
    return std::nullopt;
  }
  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo&) const override {
    return {{"arithmetic", "operands of the product: 0 s8, 1 e4m3", arithmetics(problem.linear.precision)},
            {"tokens", "rows of x of a tile", {256, 16, 32, 64, 128, 192}},
            {"warpgroups", "consumer warpgroups of a block, 64 rows of W each", {2, 3, 4}},
            {"split",
             "cuts along k: 0 none, 2 equal slices of a tile, 3 halves of a tile for the two blocks of a cluster",
             {0, 2, 3}}};
  }
  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override {
    return fastest(problem, device, enumerateConfigurations(*this, problem, device));
  }

 protected:
  FusedTile tile(const Configuration& configuration) const override { return FusedTile::expanded(configuration); }
  std::vector<std::int64_t> arithmetics(Precision precision) const override { return byteArithmetics(precision); }
  std::optional<Refusal> refusesTile(const FusedTile& tile, const LinearShape& shape) const override {
    return tile.isS8() ? refusesLong(shape.k) : std::nullopt;
  }

 private:
  static std::optional<Refusal> refusesLong(std::int64_t k) {
    if (k <= kLongestS8) return std::nullopt;
    return Refusal{"s8_scale", fmt::format("k is {}, one s8 scale per token and row serves at most {}", k, kLongestS8)};
  }
};

}  // namespace

const Template& q4kLinearTwoPassSm90() {
  static const TwoPassSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
