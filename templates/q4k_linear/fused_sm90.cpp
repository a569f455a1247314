// Problem: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in Q4_K; fused_sm90.cu explains the kernel.
//
// Longer than other host halves, for it states two templates over one kernel: fused_sm90 (FP8 or INT8) and exact_sm90
// (BF16) share the space, the geometry and the launches.
#include "templates/q4k_linear/fused_sm90.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/integer.h"
#include "templates/common/wgmma_overloads.h"
#include "templates/q4k_linear/fused_activations.h"
#include "templates/q4k_linear/fused_tile.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kKernelSource = "templates/q4k_linear/fused_sm90.cu";
constexpr std::string_view kQuantizeSource = "templates/q4k_linear/quantize.cu";

// Row bounds are padded to a multiple of every tile height, 64 times 2, 3, 4 or 5: one preparation serves all
// configurations.
constexpr std::int64_t kRowPadding = 3840;

// The kernel behind those of quantize.cu.
constexpr int kProduct = kQuantizeKernels;

// Longest k with one s8 scale per token and row. Both grow with the largest of k values, and with them the error: on
// normal data 1.33 % at 6656, 1.39 % at 14336 and 1.43 % at 19968, where int8 allows 1.4 %. Sums of 127 . 126 a product
// would wrap in s32 beyond 134217.
constexpr std::int64_t kLongestS8 = 16384;
static_assert(kLongestS8 <= 4 * 4096, "the mask of a group's outliers has at most four words");

// As the kernel declares it.
struct FusedArguments {
  const float* rowBounds;
  const float* rowInverses;
  const float* tokenScales;
  const std::uint8_t* outlierTokens;
  const std::uint64_t* outlierChunks;
  const void* bias;
  void* out;
  std::int64_t outStride;
  void* partials;
  std::uint32_t* counters;
  std::int32_t m, n, mPadded, isFirst;
  SplitSchedule schedule;
};

/// The copy engine clips stores in units of 16 bytes.
bool isRagged(const LinearShape& shape) {
  return shape.n % 8 != 0;
}

/// Where what lies in the workspace, and in the prepared weights.
struct Layout {
  FusedActivations activations;
  std::int64_t nPadded, counters;
  std::int64_t counterBytes, partialBytes, rowBytes;

  Layout(const FusedTile& tile, const SplitPlan& plan, const LinearShape& shape) : activations(tile, shape) {
    nPadded = roundUp(shape.n, kRowPadding);
    counters = plan.slots == 0 ? 0 : plan.splitTiles * tile.warpgroups;
    counterBytes = roundUp(counters * 4, 256);
    partialBytes = plan.slots * tile.slotBytes();
    rowBytes = tile.isBf16() ? 0 : 2 * nPadded * 4;
  }
  std::int64_t workspaceBytes() const {
    return activations.bytes() + counterBytes + partialBytes + roundUp(rowBytes, 256);
  }
};

struct Workspace {
  std::byte *activations, *counters, *partials, *rows;

  Workspace(void* base, const Layout& layout)
      : activations(static_cast<std::byte*>(base)),
        counters(activations + layout.activations.bytes()),
        partials(counters + layout.counterBytes),
        rows(partials + layout.partialBytes) {}
};

class FusedTemplate : public Template {
 public:
  Operation operation() const override { return Operation::kQ4kLinear; }
  bool demandsCleanBuild() const override { return true; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override;
  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override;
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override;
  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override;
  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    return FusedTile(configuration).predictMicroseconds(problem.linear, device);
  }
  Precision precision(const Problem& problem, const Configuration& configuration) const override;

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override;
  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override;
  std::int64_t preparedBytes(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override;
  void encodePreparation(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                         const Operands& operands, void* prepared, LaunchList& launches) const override;
  std::string_view activationFormat(const Problem& problem, const DeviceInfo&,
                                    const Configuration& configuration) const override {
    return FusedActivations(FusedTile(configuration), problem.linear).format;
  }
  std::int64_t activationBytes(const Problem& problem, const DeviceInfo&,
                               const Configuration& configuration) const override {
    return FusedActivations(FusedTile(configuration), problem.linear).bytes();
  }
  void encodeActivations(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                         const Operands& operands, void* activations, LaunchList& launches) const override;
  void encodeQuantized(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                       const Operands& operands, const void* activations, void* workspace, const void* prepared,
                       LaunchList& launches) const override;
  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    encodeQuantized(problem, device, configuration, operands, nullptr, workspace, prepared, launches);
  }

 protected:
  /// Values of the parameter `arithmetic` that a problem allows.
  virtual std::vector<std::int64_t> arithmetics(Precision precision) const = 0;
};

class FusedSm90 final : public FusedTemplate {
 public:
  std::string_view id() const override { return "q4k_linear.fused_sm90"; }
  std::string_view summary() const override {
    return "Hopper: Q4_K to s8 or e4m3 in registers as the A operand of wgmma, activations quantized in the call";
  }

 protected:
  std::vector<std::int64_t> arithmetics(Precision precision) const override {
    switch (precision) {
      case Precision::kExact:
        return {};
      case Precision::kInt8:
        return {static_cast<std::int64_t>(FusedArithmetic::kS8)};
      case Precision::kFp8:
        return {static_cast<std::int64_t>(FusedArithmetic::kE4m3)};
      case Precision::kFast:
        return {static_cast<std::int64_t>(FusedArithmetic::kS8), static_cast<std::int64_t>(FusedArithmetic::kE4m3)};
    }
    return {};
  }
};

class ExactSm90 final : public FusedTemplate {
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

std::optional<Refusal> FusedTemplate::refuses(const Problem& problem, const DeviceInfo& device) const {
  if (auto refusal = refusesOperation(*this, problem)) return refusal;
  if (device.target != "sm_90a") {
    return Refusal{"target", fmt::format("the target is {}, must be sm_90a", device.target)};
  }
  const LinearShape& shape = problem.linear;
  if (arithmetics(shape.precision).empty()) {
    return Refusal{"precision", "the precision is exact, this template rounds activations and weights to 8 bits"};
  }
  if (problem.alignment != Alignment::k16) {
    return Refusal{"alignment", "addresses or strides are not multiples of 16 bytes, which the copy engine needs"};
  }
  // Coordinates (of s8, those of both matrices of activations) and tile counts are 32-bit; products of them are not.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  if (shape.n > kMost || shape.k > kMost || shape.m > kMost / 2) {
    return Refusal{"size", fmt::format("n = {}, k = {}, m = {}: n and k must be at most {}, m at most {}", shape.n,
                                       shape.k, shape.m, kMost, kMost / 2)};
  }
  if (const std::int64_t tiles = (shape.n / 64 + 1) * (shape.m / 16 + 1); tiles > kMost) {
    return Refusal{"size", fmt::format("n = {}, m = {}: {} tiles of 64 rows and 16 tokens, must be at most {}", shape.n,
                                       shape.m, tiles, kMost)};
  }
  return std::nullopt;
}

std::vector<Parameter> FusedTemplate::parameters(const Problem& problem, const DeviceInfo&) const {
  const std::vector<std::int64_t> values = arithmetics(problem.linear.precision);
  const bool scales = values.front() != static_cast<std::int64_t>(FusedArithmetic::kBf16);
  return {
      {"arithmetic", "operands of the product: 0 s8, 1 e4m3, 2 bf16", values},
      {"scale_k", "k per activation scale and between promotions of sums to fp32: 0 all, or 4096",
       scales ? std::vector<std::int64_t>{0, 4096} : std::vector<std::int64_t>{0}},
      {"tokens", "rows of x of a tile", {256, 16, 32, 64, 128, 176, 192, 224}},
      {"warpgroups", "consumer warpgroups of a block, 64 rows of W each", {2, 3, 4, 5}},
      {"step_k", "k between waits for products", {64, 128, 256}},
      {"buffers", "sets of A registers: 2 convert under the own products, 1 under the others'", {2, 1}},
      {"stages_w", "super-blocks of k in the ring of weights", {4, 3, 6}},
      {"split",
       "cuts along k: 0 none, 1 equal shares for all blocks, 2 equal slices of a tile, 3 halves of a tile for the two "
       "blocks of a cluster",
       {0, 2, 3, 1}}};
}

std::optional<Refusal> FusedTemplate::refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                           const Configuration& configuration) const {
  if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
  const FusedTile tile(configuration);
  const LinearShape& shape = problem.linear;
  if (tile.promotes() && tile.isBf16()) return Refusal{"scale_k", "bf16 has no scales"};
  if (tile.promotes() && tile.scaleK >= shape.k) {
    return Refusal{"scale_k",
                   fmt::format("scale_k is {} for k = {}, the same as one scale per token", tile.scaleK, shape.k)};
  }
  if (tile.isS8() && !tile.promotes() && shape.k > kLongestS8) {
    return Refusal{"s8_scale",
                   fmt::format("k is {}, one s8 scale per token and row serves at most {}", shape.k, kLongestS8)};
  }
  if (tile.tokens > 16 && tile.tokens >= 2 * roundUp(std::max<std::int64_t>(shape.m, 1), 16)) {
    return Refusal{"token_tile",
                   fmt::format("tokens is {} for m = {}: half of a tile would be empty", tile.tokens, shape.m)};
  }
  if (tile.buffers == 1 ? tile.stepK == 64 : tile.stepK == 256) {
    return Refusal{"step_k", fmt::format("step_k is {} with {} buffers: two buffers take 64 or 128, one 128 or 256",
                                         tile.stepK, tile.buffers)};
  }
  if (tile.isBf16() && tile.buffers == 2 && tile.stepK != 64) {
    return Refusal{"step_stage",
                   fmt::format("step_k is {}, with two buffers a step must lie in one stage of bf16 activations, 64 k",
                               tile.stepK)};
  }
  if (tile.tokens % (16 * tile.cluster()) != 0) {
    return Refusal{"cluster_tokens",
                   fmt::format("tokens is {}, each of {} blocks of a cluster must finish multiples of 16", tile.tokens,
                               tile.cluster())};
  }
  if (tile.cluster() > 1 && isRagged(shape)) {
    return Refusal{"cluster_ragged", fmt::format("n = {} is no multiple of 8, which clusters do not store", shape.n)};
  }
  if (tile.cluster() > 1 && tile.split(shape, device.unitCount).schedule.cluster == 0) {
    return Refusal{"cluster_tiles", "no tiles are left over that clusters would finish sooner"};
  }
  if (isRagged(shape) && tile.tokens > 192) {
    return Refusal{"ragged",
                   fmt::format("n = {} is no multiple of 8, whose store leaves registers for 192 tokens, not {}",
                               shape.n, tile.tokens)};
  }
  if (tile.registersWanted() > tile.registersGiven()) {
    return Refusal{"registers", fmt::format("a consumer thread needs about {} registers, {} warpgroups leave it {}",
                                            tile.registersWanted(), tile.warpgroups, tile.registersGiven())};
  }
  if (tile.stagesX() < 4 || tile.sharedBytes() > device.sharedBytesPerBlock) {
    return Refusal{"shared_memory",
                   fmt::format("{} stages of activations take {} bytes of shared memory, must be 4 in {}",
                               tile.stagesX(), tile.sharedBytes(), device.sharedBytesPerBlock)};
  }
  const std::int64_t received = tile.slotBytes() / tile.cluster() * (tile.cluster() - 1);
  if (received > tile.stagesX() * tile.tokens * 128) {
    return Refusal{"cluster_memory", fmt::format("a cluster's parts take {} bytes of a ring of {}", received,
                                                 tile.stagesX() * tile.tokens * 128)};
  }
  return std::nullopt;
}

Configuration FusedTemplate::defaultConfiguration(const Problem& problem, const DeviceInfo& device) const {
  // tokens, warpgroups, step_k, buffers, stages_w of the configurations that win somewhere.
  constexpr std::array<std::array<std::int64_t, 5>, 8> kUsual = {{{256, 2, 64, 2, 4},
                                                                  {256, 2, 64, 2, 3},
                                                                  {128, 2, 64, 2, 4},
                                                                  {64, 2, 128, 2, 6},
                                                                  {64, 2, 64, 2, 4},
                                                                  {32, 2, 128, 2, 6},
                                                                  {16, 2, 256, 1, 6},
                                                                  {16, 2, 64, 2, 6}}};
  const std::int64_t arithmetic = arithmetics(problem.linear.precision).front();
  Configuration best;
  double bestTime = std::numeric_limits<double>::infinity();
  for (const auto& usual : kUsual) {
    for (const std::int64_t stepK : {usual[2], std::int64_t{64}}) {
      // A step of BF16 takes twice the registers and the time of one of bytes.
      if (arithmetic == static_cast<std::int64_t>(FusedArithmetic::kBf16) && stepK != 64) continue;
      for (const std::int64_t scaleK : {0, 4096}) {
        for (const std::int64_t split : {0, 2, 3, 1}) {
          const Configuration candidate({{"arithmetic", arithmetic},
                                         {"scale_k", scaleK},
                                         {"tokens", usual[0]},
                                         {"warpgroups", usual[1]},
                                         {"step_k", stepK},
                                         {"buffers", usual[3]},
                                         {"stages_w", usual[4]},
                                         {"split", split}});
          if (refusesConfiguration(problem, device, candidate)) continue;
          const double time = predictMicroseconds(problem, device, candidate);
          if (time < bestTime) best = candidate, bestTime = time;
        }
      }
    }
  }
  return best;
}

Precision FusedTemplate::precision(const Problem&, const Configuration& configuration) const {
  switch (FusedTile(configuration).arithmetic) {
    case FusedArithmetic::kS8:
      return Precision::kInt8;
    case FusedArithmetic::kE4m3:
      return Precision::kFp8;
    case FusedArithmetic::kBf16:
      return Precision::kExact;
  }
  return Precision::kExact;
}

std::vector<BuildRequest> FusedTemplate::buildRequests(const Problem& problem, const DeviceInfo& device,
                                                       const Configuration& configuration,
                                                       const SourceCatalog& sources) const {
  const FusedTile tile(configuration);
  std::vector<BuildRequest> requests;
  const auto add = [&](std::string_view source, std::vector<std::string> entries,
                       std::vector<std::pair<std::string, std::string>> parameters) -> BuildRequest& {
    BuildRequest& request = requests.emplace_back();
    request.templateId = id();
    request.target = device.target;
    request.entries = std::move(entries);
    request.parameters = std::move(parameters);
    request.source = parameterPrelude(request.parameters);
    request.includes = sources.includesOf(source);
    request.includes.push_back({std::string(source), sources.text(source)});
    return request;
  };
  const auto include = [](std::string_view file) { return fmt::format("#include \"{}\"\n", file); };

  if (!tile.isBf16()) {
    BuildRequest& quantize =
        add(kQuantizeSource,
            {"q4kRowBounds", "clearCounters", "quantizeActivations1", "quantizeActivations2", "quantizeActivations4",
             "quantizeActivationsLong"},
            {{"arithmetic", fmt::to_string(configuration["arithmetic"])}, {"scale_k", fmt::to_string(tile.scaleK)}});
    quantize.source += include(kQuantizeSource) +
                       fmt::format("static_assert(sizeof(QuantizeArguments) == {}, \"host and device disagree\");\n",
                                   sizeof(QuantizeArguments));
  }

  std::vector<std::pair<std::string, std::string>> parameters;
  for (const auto& [name, value] : configuration.entries()) {
    if (name != "split") parameters.emplace_back(name, fmt::to_string(value));
  }
  parameters.emplace_back("cluster", fmt::to_string(tile.cluster()));
  parameters.emplace_back("spare_threads", fmt::to_string(tile.spareThreads()));
  parameters.emplace_back("ragged", isRagged(problem.linear) ? "1" : "0");
  parameters.emplace_back("stages_x", fmt::to_string(tile.stagesX()));
  parameters.emplace_back("shared_bytes", fmt::to_string(tile.sharedBytes()));
  BuildRequest& product = add(kKernelSource, {"q4kLinearFused"}, std::move(parameters));
  const WgmmaShape::Type type = tile.isBf16()                               ? WgmmaShape::Type::kBf16
                                : tile.arithmetic == FusedArithmetic::kE4m3 ? WgmmaShape::Type::kE4m3
                                                                            : WgmmaShape::Type::kS8;
  const WgmmaShape shape{type, static_cast<int>(tile.tokens), true};
  product.source += wgmmaOverloads(std::span(&shape, 1)) + include(kKernelSource) +
                    fmt::format(
                        "static_assert(sizeof(FusedArguments) == {} && kThreads == {} && kConsumerRegisters == {}, "
                        "\"host and device disagree\");\n",
                        sizeof(FusedArguments), tile.threads(), tile.registersGiven());
  return requests;
}

std::int64_t FusedTemplate::workspaceBytes(const Problem& problem, const DeviceInfo& device,
                                           const Configuration& configuration) const {
  const FusedTile tile(configuration);
  return Layout(tile, tile.split(problem.linear, device.unitCount), problem.linear).workspaceBytes();
}

std::int64_t FusedTemplate::preparedBytes(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration) const {
  const FusedTile tile(configuration);
  return Layout(tile, tile.split(problem.linear, device.unitCount), problem.linear).rowBytes;
}

void FusedTemplate::encodePreparation(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                                      const Operands& operands, void* prepared, LaunchList& launches) const {
  const FusedTile tile(configuration);
  if (tile.isBf16()) return;
  const LinearShape& shape = problem.linear;
  const auto nPadded = static_cast<std::int32_t>(roundUp(shape.n, kRowPadding));
  float* scales = static_cast<float*>(prepared);
  KernelArguments& arguments =
      launches.addKernel(kRowBounds, {static_cast<std::uint32_t>(nPadded / 8), 1, 1}, {256, 1, 1}).arguments;
  arguments.pointer(operands.linear.w), arguments.pointer(scales), arguments.pointer(scales + nPadded);
  arguments.value(static_cast<std::int32_t>(shape.n)), arguments.value(nPadded);
  arguments.value(static_cast<std::int32_t>(shape.k / 256));
}

void FusedTemplate::encodeActivations(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                                      const Operands& operands, void* activations, LaunchList& launches) const {
  const FusedTile tile(configuration);
  if (tile.isBf16() || problem.linear.m == 0) return;
  const FusedActivations layout(tile, problem.linear);
  encodeQuantization(problem.linear, operands.linear, layout, activations, {}, launches);
}

/// A rank-2 map with 128-byte boxes or, for W, one super-block wide.
TensorMap map2d(const void* base, TensorMap::Element element, std::int64_t inner, std::int64_t outer,
                std::int64_t strideBytes, std::int64_t boxInner, std::int64_t boxOuter, TensorMap::Swizzle swizzle) {
  TensorMap map;
  map.base = base, map.element = element, map.swizzle = swizzle;
  map.size = {static_cast<std::uint64_t>(inner), static_cast<std::uint64_t>(outer)};
  map.strideBytes = {static_cast<std::uint64_t>(strideBytes)};
  map.box = {static_cast<std::uint32_t>(boxInner), static_cast<std::uint32_t>(boxOuter)};
  return map;
}

// Without `given` x is quantized within the call.
void FusedTemplate::encodeQuantized(const Problem& problem, const DeviceInfo& device,
                                    const Configuration& configuration, const Operands& operands, const void* given,
                                    void* workspaceBase, const void* prepared, LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  if (shape.m == 0) return;
  const FusedTile tile(configuration);
  const SplitPlan plan = tile.split(shape, device.unitCount);
  const Layout layout(tile, plan, shape);
  const Workspace workspace(workspaceBase, layout);

  // What the product needs first: row bounds and quantized x, unless kept by the caller; zeroed counters.
  const void* rows = prepared != nullptr ? prepared : workspace.rows;
  const auto* quantized = given != nullptr ? static_cast<const std::byte*>(given) : workspace.activations;
  const FusedCounters counters{reinterpret_cast<std::uint32_t*>(workspace.counters), layout.counters};
  if (tile.isBf16()) {
    if (layout.counters > 0) launches.addFill(workspace.counters, 0, static_cast<std::size_t>(layout.counterBytes));
  } else {
    if (prepared == nullptr) encodePreparation(problem, device, configuration, operands, workspace.rows, launches);
    if (given == nullptr) {
      encodeQuantization(shape, linear, layout.activations, workspace.activations, counters, launches);
    } else if (layout.counters > 0) {
      encodeClear(counters, launches);
    }
  }

  using Element = TensorMap::Element;
  using Swizzle = TensorMap::Swizzle;
  Launch& launch = launches.addKernel(tile.isBf16() ? 0 : kProduct, {static_cast<std::uint32_t>(plan.grid), 1, 1},
                                      {static_cast<std::uint32_t>(tile.threads()), 1, 1},
                                      static_cast<std::uint32_t>(tile.sharedBytes()));
  launch.programmaticDependent = !tile.isBf16();
  if (plan.schedule.cluster > 0) launch.cluster.x = static_cast<std::uint32_t>(plan.schedule.cluster);
  launch.arguments.tensorMap(
      map2d(linear.w, Element::kU8, shape.k / 256 * 144, shape.n, shape.k / 256 * 144, 144, 64, Swizzle::kNone));
  launch.arguments.tensorMap(tile.isBf16() ? map2d(linear.x, Element::kBf16, shape.k, shape.m, linear.xStride * 2, 64,
                                                   tile.tokens, Swizzle::k128)
                                           : map2d(quantized, Element::kU8, shape.k, shape.m * (tile.isS8() ? 2 : 1),
                                                   shape.k, 128, tile.tokens, Swizzle::k128));
  launch.arguments.tensorMap(
      map2d(linear.out, Element::kBf16, shape.n, shape.m, linear.outStride * 2, 64, tile.outTokens(), Swizzle::k128));
  const FusedActivations& x = layout.activations;
  launch.arguments.value(FusedArguments{.rowBounds = static_cast<const float*>(rows),
                                        .rowInverses = static_cast<const float*>(rows) + layout.nPadded,
                                        .tokenScales = reinterpret_cast<const float*>(x.scales(quantized)),
                                        .outlierTokens = reinterpret_cast<const std::uint8_t*>(x.flags(quantized)),
                                        .outlierChunks = reinterpret_cast<const std::uint64_t*>(x.flagWords(quantized)),
                                        .bias = shape.bias ? linear.bias : nullptr,
                                        .out = linear.out,
                                        .outStride = linear.outStride,
                                        .partials = workspace.partials,
                                        .counters = counters.counters,
                                        .m = static_cast<std::int32_t>(shape.m),
                                        .n = static_cast<std::int32_t>(shape.n),
                                        .mPadded = static_cast<std::int32_t>(x.mPadded),
                                        .isFirst = given != nullptr && layout.counters == 0,
                                        .schedule = plan.schedule});
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
