#include "templates/q4k_linear/fused_template.h"

#include <algorithm>
#include <limits>

#include "base/integer.h"
#include "templates/common/wgmma_overloads.h"
#include "templates/q4k_linear/fused_activations.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kFusedSource = "templates/q4k_linear/fused_sm90.cu";
constexpr std::string_view kTwoPassSource = "templates/q4k_linear/two_pass_sm90.cu";
constexpr std::string_view kExpandSource = "templates/q4k_linear/expand.cu";
constexpr std::string_view kQuantizeSource = "templates/q4k_linear/quantize.cu";

// Row bounds are padded to a multiple of every tile height, 64 times 2, 3, 4 or 5: one preparation serves all
// configurations.
constexpr std::int64_t kRowPadding = 3840;

// The kernels' numbers: behind those of quantize.cu comes that of expand.cu, if any, and the product.
constexpr int kExpand = kQuantizeKernels;
constexpr std::uint32_t kExpandThreads = 128;  // as the kernel has them
int productKernel(const FusedTile& tile) {
  return tile.isBf16() ? 0 : tile.isExpanded ? kExpand + 1 : kQuantizeKernels;
}

// As the kernels declare it.
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
  std::int64_t counterBytes, partialBytes, rowBytes, expandedBytes;
  bool isPrepared;  // by the caller, in every call

  Layout(const FusedTile& tile, const SplitPlan& plan, const LinearShape& shape) : activations(tile, shape) {
    nPadded = roundUp(shape.n, kRowPadding);
    counters = plan.slots == 0 ? 0 : plan.splitTiles * tile.warpgroups;
    counterBytes = roundUp(counters * 4, 256);
    partialBytes = plan.slots * tile.slotBytes();
    rowBytes = tile.isBf16() ? 0 : 2 * nPadded * 4;
    expandedBytes = tile.isExpanded ? roundUp(shape.n * shape.k, 256) : 0;
    isPrepared = shape.prepared;
  }
  /// Row bounds, then W in 8 bits.
  std::int64_t preparedBytes() const { return rowBytes + expandedBytes; }
  std::int64_t workspaceBytes() const {
    return activations.bytes() + counterBytes + partialBytes + (isPrepared ? 0 : preparedBytes());
  }
};

struct Workspace {
  std::byte *activations, *counters, *partials, *prepared;

  Workspace(void* base, const Layout& layout)
      : activations(static_cast<std::byte*>(base)),
        counters(activations + layout.activations.bytes()),
        partials(counters + layout.counterBytes),
        prepared(partials + layout.partialBytes) {}
};

/// A rank-2 map with 128-byte boxes or, for super-blocks of W, one super-block wide.
TensorMap map2d(const void* base, TensorMap::Element element, std::int64_t inner, std::int64_t outer,
                std::int64_t strideBytes, std::int64_t boxInner, std::int64_t boxOuter, TensorMap::Swizzle swizzle) {
  TensorMap map;
  map.base = base, map.element = element, map.swizzle = swizzle;
  map.size = {static_cast<std::uint64_t>(inner), static_cast<std::uint64_t>(outer)};
  map.strideBytes = {static_cast<std::uint64_t>(strideBytes)};
  map.box = {static_cast<std::uint32_t>(boxInner), static_cast<std::uint32_t>(boxOuter)};
  return map;
}

/// W as the product's copies take it.
TensorMap weightMap(const FusedTile& tile, const LinearShape& shape, const void* superBlocks, const void* expanded) {
  using Element = TensorMap::Element;
  using Swizzle = TensorMap::Swizzle;
  if (tile.isExpanded) {
    return map2d(expanded, Element::kU8, shape.k, shape.n, shape.k, 128, tile.rows(), Swizzle::k128);
  }
  const std::int64_t rowBytes = shape.k / 256 * 144;
  return map2d(superBlocks, Element::kU8, rowBytes, shape.n, rowBytes, 144, 64, Swizzle::kNone);
}

}  // namespace

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
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kRowPadding;
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

std::optional<Refusal> FusedTemplate::refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                           const Configuration& configuration) const {
  if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
  const FusedTile tile = this->tile(configuration);
  const LinearShape& shape = problem.linear;
  if (auto refusal = refusesTile(tile, shape)) return refusal;
  if (tile.tokens > 16 && tile.tokens >= 2 * roundUp(std::max<std::int64_t>(shape.m, 1), 16)) {
    return Refusal{"token_tile",
                   fmt::format("tokens is {} for m = {}: half of a tile would be empty", tile.tokens, shape.m)};
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
    return Refusal{"registers",
                   fmt::format("a consumer thread needs about {} registers, {} warpgroups{} leave it {}",
                               tile.registersWanted(), tile.warpgroups,
                               tile.hasTableWarpgroup() ? " beside one for the table" : "", tile.registersGiven())};
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

Precision FusedTemplate::precision(const Problem&, const Configuration& configuration) const {
  switch (tile(configuration).arithmetic) {
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
  const FusedTile tile = this->tile(configuration);
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

  const std::string arithmetic = fmt::to_string(static_cast<std::int64_t>(tile.arithmetic));
  if (!tile.isBf16()) {
    BuildRequest& quantize = add(kQuantizeSource,
                                 {"q4kRowBounds", "clearCounters", "quantizeActivations1", "quantizeActivations2",
                                  "quantizeActivations4", "quantizeActivationsLong"},
                                 {{"arithmetic", arithmetic}, {"scale_k", fmt::to_string(tile.scaleK)}});
    quantize.source += include(kQuantizeSource) +
                       fmt::format("static_assert(sizeof(QuantizeArguments) == {}, \"host and device disagree\");\n",
                                   sizeof(QuantizeArguments));
  }
  if (tile.isExpanded) {
    add(kExpandSource, {"q4kExpand"}, {{"arithmetic", arithmetic}}).source +=
        include(kExpandSource) +
        fmt::format("static_assert(kExpandThreads == {}, \"host and device disagree\");\n", kExpandThreads);
  }

  std::vector<std::pair<std::string, std::string>> parameters;
  for (const auto& [name, value] : configuration.entries()) {
    if (name != "split") parameters.emplace_back(name, fmt::to_string(value));
  }
  parameters.emplace_back("expanded", tile.isExpanded ? "1" : "0");
  if (tile.isExpanded) {
    parameters.emplace_back("scale_k", "0");
    parameters.emplace_back("stages_w", fmt::to_string(tile.stagesX()));
    parameters.emplace_back("table_warps", "0");
  }
  parameters.emplace_back("cluster", fmt::to_string(tile.cluster()));
  parameters.emplace_back("out_buffers", fmt::to_string(tile.outBuffers()));
  parameters.emplace_back("spare_threads", fmt::to_string(tile.spareThreads()));
  parameters.emplace_back("ragged", isRagged(problem.linear) ? "1" : "0");
  parameters.emplace_back("stages_x", fmt::to_string(tile.stagesX()));
  parameters.emplace_back("shared_bytes", fmt::to_string(tile.sharedBytes()));
  const std::string_view source = tile.isExpanded ? kTwoPassSource : kFusedSource;
  BuildRequest& product = add(source, {tile.isExpanded ? "q4kLinearTwoPass" : "q4kLinearFused"}, std::move(parameters));
  const WgmmaShape::Type type = tile.isBf16()                               ? WgmmaShape::Type::kBf16
                                : tile.arithmetic == FusedArithmetic::kE4m3 ? WgmmaShape::Type::kE4m3
                                                                            : WgmmaShape::Type::kS8;
  const WgmmaShape shape{type, static_cast<int>(tile.tokens), !tile.isExpanded};
  product.source += wgmmaOverloads(std::span(&shape, 1)) + include(source) +
                    fmt::format(
                        "static_assert(sizeof(FusedArguments) == {} && kThreads == {} && kConsumerRegisters == {} && "
                        "kHasSplits == {}, \"host and device disagree\");\n",
                        sizeof(FusedArguments), tile.threads(), tile.registersGiven(), tile.canSplit());
  return requests;
}

std::int64_t FusedTemplate::workspaceBytes(const Problem& problem, const DeviceInfo& device,
                                           const Configuration& configuration) const {
  const FusedTile tile = this->tile(configuration);
  return Layout(tile, tile.split(problem.linear, device.unitCount), problem.linear).workspaceBytes();
}

std::int64_t FusedTemplate::preparedBytes(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration) const {
  const FusedTile tile = this->tile(configuration);
  return Layout(tile, tile.split(problem.linear, device.unitCount), problem.linear).preparedBytes();
}

// NOTE: q4kRowBounds and q4kExpand find bounds by the same function over the same super-blocks, and a maximum does not
// depend on the order: the beginning of a two-pass preparation has the bits of a fused one, whatever the arithmetic.
std::string_view FusedTemplate::preparedFormat(const Problem&, const DeviceInfo&,
                                               const Configuration& configuration) const {
  const FusedTile tile = this->tile(configuration);
  if (tile.isBf16()) return {};
  if (!tile.isExpanded) return "bounds";
  return tile.isS8() ? "bounds+s8" : "bounds+e4m3";
}

void FusedTemplate::encodePreparation(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                                      const Operands& operands, void* prepared, LaunchList& launches) const {
  const FusedTile tile = this->tile(configuration);
  if (tile.isBf16()) return;
  const LinearShape& shape = problem.linear;
  const auto n = static_cast<std::int32_t>(shape.n), blocks = static_cast<std::int32_t>(shape.k / 256);
  const auto nPadded = static_cast<std::uint32_t>(roundUp(shape.n, kRowPadding));
  float* bounds = static_cast<float*>(prepared);
  Launch& launch = tile.isExpanded ? launches.addKernel(kExpand, {nPadded, 1, 1}, {kExpandThreads, 1, 1})
                                   : launches.addKernel(kRowBounds, {nPadded / 8, 1, 1}, {256, 1, 1});
  launch.arguments.pointer(operands.linear.w), launch.arguments.pointer(bounds);
  launch.arguments.pointer(bounds + nPadded);
  if (tile.isExpanded) {
    launch.arguments.pointer(bounds + std::ptrdiff_t{2} * nPadded), launch.arguments.value(n);
  } else {
    launch.arguments.value(n), launch.arguments.value(static_cast<std::int32_t>(nPadded));
  }
  launch.arguments.value(blocks);
}

std::string_view FusedTemplate::activationFormat(const Problem& problem, const DeviceInfo&,
                                                 const Configuration& configuration) const {
  return FusedActivations(tile(configuration), problem.linear).format;
}

std::int64_t FusedTemplate::activationBytes(const Problem& problem, const DeviceInfo&,
                                            const Configuration& configuration) const {
  return FusedActivations(tile(configuration), problem.linear).bytes();
}

void FusedTemplate::encodeActivations(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                                      const Operands& operands, void* activations, LaunchList& launches) const {
  const FusedTile tile = this->tile(configuration);
  if (tile.isBf16() || problem.linear.m == 0) return;
  const FusedActivations layout(tile, problem.linear);
  encodeQuantization(problem.linear, operands.linear, layout, activations, {}, launches);
}

// Without `given` x is quantized within the call.
void FusedTemplate::encodeQuantized(const Problem& problem, const DeviceInfo& device,
                                    const Configuration& configuration, const Operands& operands, const void* given,
                                    void* workspaceBase, const void* prepared, LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  if (shape.m == 0) return;
  const FusedTile tile = this->tile(configuration);
  const SplitPlan plan = tile.split(shape, device.unitCount);
  const Layout layout(tile, plan, shape);
  const Workspace workspace(workspaceBase, layout);

  // What the product needs first: row bounds, W in 8 bits and quantized x, unless kept by the caller; zeroed counters.
  const void* weights = prepared != nullptr ? prepared : workspace.prepared;
  const float* const bounds = static_cast<const float*>(weights);
  const auto* quantized = given != nullptr ? static_cast<const std::byte*>(given) : workspace.activations;
  const FusedCounters counters{reinterpret_cast<std::uint32_t*>(workspace.counters), layout.counters};
  if (tile.isBf16()) {
    if (layout.counters > 0) launches.addFill(workspace.counters, 0, static_cast<std::size_t>(layout.counterBytes));
  } else {
    if (prepared == nullptr) encodePreparation(problem, device, configuration, operands, workspace.prepared, launches);
    if (given == nullptr) {
      encodeQuantization(shape, linear, layout.activations, workspace.activations, counters, launches);
    } else if (layout.counters > 0) {
      encodeClear(counters, launches);
    }
  }

  using Element = TensorMap::Element;
  using Swizzle = TensorMap::Swizzle;
  Launch& launch = launches.addKernel(productKernel(tile), {static_cast<std::uint32_t>(plan.grid), 1, 1},
                                      {static_cast<std::uint32_t>(tile.threads()), 1, 1},
                                      static_cast<std::uint32_t>(tile.sharedBytes()));
  launch.programmaticDependent = !tile.isBf16();
  if (plan.schedule.cluster > 0) launch.cluster.x = static_cast<std::uint32_t>(plan.schedule.cluster);
  launch.arguments.tensorMap(weightMap(tile, shape, linear.w, bounds + 2 * layout.nPadded));
  launch.arguments.tensorMap(tile.isBf16() ? map2d(linear.x, Element::kBf16, shape.k, shape.m, linear.xStride * 2, 64,
                                                   tile.tokens, Swizzle::k128)
                                           : map2d(quantized, Element::kU8, shape.k, shape.m * (tile.isS8() ? 2 : 1),
                                                   shape.k, 128, tile.tokens, Swizzle::k128));
  launch.arguments.tensorMap(
      map2d(linear.out, Element::kBf16, shape.n, shape.m, linear.outStride * 2, 64, tile.outTokens(), Swizzle::k128));
  const FusedActivations& x = layout.activations;
  launch.arguments.value(FusedArguments{.rowBounds = bounds,
                                        .rowInverses = bounds + layout.nPadded,
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

Configuration FusedTemplate::fastest(const Problem& problem, const DeviceInfo& device,
                                     std::span<const Configuration> candidates) const {
  Configuration best;
  double bestTime = std::numeric_limits<double>::infinity();
  for (const Configuration& candidate : candidates) {
    if (refusesConfiguration(problem, device, candidate)) continue;
    const double time = predictMicroseconds(problem, device, candidate);
    if (time < bestTime) best = candidate, bestTime = time;
  }
  return best;
}

std::vector<std::int64_t> byteArithmetics(Precision precision) {
  constexpr auto kS8 = static_cast<std::int64_t>(FusedArithmetic::kS8);
  constexpr auto kE4m3 = static_cast<std::int64_t>(FusedArithmetic::kE4m3);
  switch (precision) {
    case Precision::kExact:
      return {};
    case Precision::kInt8:
      return {kS8};
    case Precision::kFp8:
      return {kE4m3};
    case Precision::kFast:
      return {kS8, kE4m3};
  }
  return {};
}

}  // namespace tilewright
