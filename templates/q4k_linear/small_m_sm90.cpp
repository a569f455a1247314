// Problem: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in Q4_K and few rows; small_m_sm90.cu explains the
// kernel.
#include "templates/q4k_linear/small_m_sm90.h"

#include <algorithm>
#include <limits>

#include "templates/q4k_linear/split_schedule.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kKernelSource = "templates/q4k_linear/small_m_sm90.cu";
constexpr std::string_view kQuantizeSource = "templates/q4k_linear/small_m_quantize.cu";

constexpr std::int64_t kMostTokens = 32;
constexpr std::int64_t kGroupBytes = 2560;  // activations of 8 tokens and 256 k, small_m_activations.cuh

enum Kernel : int { kQuantize, kProduct };

std::int64_t roundUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// As the kernels declare them.
struct QuantizeArguments {
  const void* x;
  void* activations;
  std::uint32_t* counters;
  std::int64_t xStride;
  std::int32_t m, blocks, groups, counterCount;
};
struct ProductArguments {
  const void* activations;
  const void* bias;
  void* out;
  void* partials;
  std::uint32_t* counters;
  std::int64_t outStride;
  std::int32_t m, n;
  SplitSchedule schedule;
};

/// One configuration for one number of tokens.
struct SmallMTile {
  std::int64_t warps, blocksPerUnit;
  SplitMode splitMode;
  std::int64_t groups;

  SmallMTile(const Configuration& configuration, const LinearShape& shape)
      : warps(configuration["warps"]),
        blocksPerUnit(configuration["blocks_per_unit"]),
        splitMode(static_cast<SplitMode>(configuration["split"])),
        groups(std::max<std::int64_t>(1, (shape.m + 7) / 8)) {}

  std::int64_t rows() const { return warps * 16; }
  std::int64_t threads() const { return warps * 32 + 32; }
  /// A stage with its two barriers.
  std::int64_t stageBytes() const { return rows() * 144 + groups * kGroupBytes + 16; }
  /// As many as the SM's shared memory holds for each of its blocks, at most 16.
  std::int64_t stages(const DeviceInfo& device) const {
    constexpr std::int64_t kReserved = 1024;  // of each block, by the system
    const std::int64_t most =
        std::min(device.sharedBytesPerBlock, device.sharedBytesPerUnit / blocksPerUnit - kReserved);
    return std::clamp<std::int64_t>((most - 128) / stageBytes(), 0, 16);
  }
  std::int64_t sharedBytes(const DeviceInfo& device) const { return stages(device) * stageBytes() + 128; }

  SplitPlan split(const LinearShape& shape, const DeviceInfo& device) const {
    return planSplit(shape.n, shape.k, std::max<std::int64_t>(shape.m, 1), {rows(), groups * 8},
                     static_cast<int>(device.unitCount * blocksPerUnit), splitMode);
  }
};

/// Where what lies in the workspace.
struct Layout {
  std::int64_t activationBytes, counterBytes, partialBytes;
  std::int64_t counters;

  Layout(const SmallMTile& tile, const SplitPlan& plan, const LinearShape& shape) {
    counters = plan.splitTiles * tile.warps;
    activationBytes = roundUp(shape.k / 256 * tile.groups * kGroupBytes, 256);
    counterBytes = roundUp(counters * 4, 256);
    partialBytes = plan.slots * tile.warps * tile.groups * 32 * 16;
  }
};

class SmallMSm90 final : public Template {
 public:
  std::string_view id() const override { return "q4k_linear.small_m_sm90"; }
  Operation operation() const override { return Operation::kQ4kLinear; }
  std::string_view summary() const override {
    return "Hopper, up to 32 rows: codes multiplied as they are by s8 activations with a scale for each 32 k";
  }
  bool demandsCleanBuild() const override { return true; }
  Precision precision(const Problem&, const Configuration&) const override { return Precision::kInt8; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override;
  std::vector<Parameter> parameters(const Problem&, const DeviceInfo&) const override {
    return {{"warps", "consumer warps of a block, 16 rows of W each", {8, 4, 16}},
            {"blocks_per_unit", "blocks that share an SM", {1, 2}},
            {"split", "cuts along k: 0 none, 1 equal shares for all blocks, 2 equal slices of a tile", {0, 2, 1}}};
  }
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override;
  Configuration defaultConfiguration(const Problem&, const DeviceInfo&) const override {
    return Configuration({{"warps", 8}, {"blocks_per_unit", 1}, {"split", 1}});
  }
  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override;
  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override;
  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override;
  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override;
};

std::optional<Refusal> SmallMSm90::refuses(const Problem& problem, const DeviceInfo& device) const {
  if (auto refusal = refusesOperation(*this, problem)) return refusal;
  if (device.target != "sm_90a") {
    return Refusal{"target", fmt::format("the target is {}, must be sm_90a", device.target)};
  }
  const LinearShape& shape = problem.linear;
  if (shape.precision == Precision::kExact) {
    return Refusal{"precision", "the precision is exact, this template rounds activations to 8 bits"};
  }
  if (problem.alignment != Alignment::k16) {
    return Refusal{"alignment", "addresses or strides are not multiples of 16 bytes, which the copy engine needs"};
  }
  if (shape.m > kMostTokens) {
    return Refusal{"tokens", fmt::format("m is {}, must be at most {}", shape.m, kMostTokens)};
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  if (shape.n > kMost || shape.k > kMost) {
    return Refusal{"size", fmt::format("n = {}, k = {}: must be at most {}", shape.n, shape.k, kMost)};
  }
  return std::nullopt;
}

std::optional<Refusal> SmallMSm90::refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                        const Configuration& configuration) const {
  if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
  const SmallMTile tile(configuration, problem.linear);
  if (tile.stages(device) < 3) {
    return Refusal{"shared_memory", fmt::format("{} blocks of an SM leave room for {} stages of {} bytes, must be 3",
                                                tile.blocksPerUnit, tile.stages(device), tile.stageBytes())};
  }
  if (tile.blocksPerUnit * tile.threads() > 576 && tile.groups > 2) {
    return Refusal{"registers", fmt::format("{} threads on an SM leave too few registers for {} groups of tokens",
                                            tile.blocksPerUnit * tile.threads(), tile.groups)};
  }
  return std::nullopt;
}

double SmallMSm90::predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                                       const Configuration& configuration) const {
  const LinearShape& shape = problem.linear;
  const SmallMTile tile(configuration, shape);
  const SplitPlan plan = tile.split(shape, device);
  const auto count = [](std::int64_t v) { return static_cast<double>(v); };

  // An SM issues for what its blocks hold: about 250 instructions a warp and super-block for the first group of tokens
  // and 130 for each further one, on four schedulers.
  const double issue = count(tile.warps * tile.blocksPerUnit) / 4 * (120 + 130 * count(tile.groups));
  const double compute = count(plan.longestBlock()) * issue * 1.15 / 1.75e9 * 1e6;
  const double share = count(plan.grid) / count(std::max<std::int64_t>(1, device.unitCount * tile.blocksPerUnit));
  const double memory = count(shape.n) * count(shape.k) / 256 * 144 /
                        std::max(1.0, 0.78 * device.memoryBytesPerSecond * std::min(1.0, share)) * 1e6;
  const double split = plan.slots > 0 ? 1.5 : 0;
  return 5.5 + std::max(compute, memory) + 0.15 * std::min(compute, memory) + split;
}

std::vector<BuildRequest> SmallMSm90::buildRequests(const Problem& problem, const DeviceInfo& device,
                                                    const Configuration& configuration,
                                                    const SourceCatalog& sources) const {
  const SmallMTile tile(configuration, problem.linear);
  std::vector<BuildRequest> requests;
  const auto add = [&](std::string_view source, std::string_view entry, std::string_view arguments, std::size_t bytes,
                       std::vector<std::pair<std::string, std::string>> parameters) {
    BuildRequest& request = requests.emplace_back();
    request.templateId = id();
    request.target = device.target;
    request.entries = {std::string(entry)};
    request.parameters = std::move(parameters);
    request.source = parameterPrelude(request.parameters) +
                     fmt::format("#include \"{}\"\nstatic_assert(sizeof({}) == {}, \"host and device disagree\");\n",
                                 source, arguments, bytes);
    request.includes = sources.includesOf(source);
    request.includes.push_back({std::string(source), sources.text(source)});
  };
  add(kQuantizeSource, "quantizeSmallM", "SmallMQuantizeArguments", sizeof(QuantizeArguments), {});
  add(kKernelSource, "q4kLinearSmallM", "SmallMArguments", sizeof(ProductArguments),
      {{"token_groups", fmt::to_string(tile.groups)},
       {"warps", fmt::to_string(tile.warps)},
       {"stages", fmt::to_string(tile.stages(device))},
       {"blocks_per_unit", fmt::to_string(tile.blocksPerUnit)},
       {"shared_bytes", fmt::to_string(tile.sharedBytes(device))}});
  return requests;
}

std::int64_t SmallMSm90::workspaceBytes(const Problem& problem, const DeviceInfo& device,
                                        const Configuration& configuration) const {
  const SmallMTile tile(configuration, problem.linear);
  const Layout layout(tile, tile.split(problem.linear, device), problem.linear);
  return layout.activationBytes + layout.counterBytes + layout.partialBytes;
}

void SmallMSm90::encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                        const Operands& operands, void* workspace, const void*, LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  if (shape.m == 0) return;
  const SmallMTile tile(configuration, shape);
  const SplitPlan plan = tile.split(shape, device);
  const Layout layout(tile, plan, shape);
  std::byte* const activations = static_cast<std::byte*>(workspace);
  auto* const counters = reinterpret_cast<std::uint32_t*>(activations + layout.activationBytes);
  std::byte* const partials = activations + layout.activationBytes + layout.counterBytes;

  // A warp for each token, padding included, and super-block.
  const std::int64_t blocks = shape.k / 256;
  launches.addKernel(kQuantize, {static_cast<std::uint32_t>(blocks * tile.groups), 1, 1}, {256, 1, 1})
      .arguments.value(QuantizeArguments{.x = linear.x,
                                         .activations = activations,
                                         .counters = counters,
                                         .xStride = linear.xStride / 8,
                                         .m = static_cast<std::int32_t>(shape.m),
                                         .blocks = static_cast<std::int32_t>(blocks),
                                         .groups = static_cast<std::int32_t>(tile.groups),
                                         .counterCount = static_cast<std::int32_t>(layout.counters)});

  Launch& launch = launches.addKernel(kProduct, {static_cast<std::uint32_t>(plan.grid), 1, 1},
                                      {static_cast<std::uint32_t>(tile.threads()), 1, 1},
                                      static_cast<std::uint32_t>(tile.sharedBytes(device)));
  launch.programmaticDependent = true;
  TensorMap map;
  map.base = linear.w, map.element = TensorMap::Element::kU8;
  map.size = {static_cast<std::uint64_t>(blocks * 144), static_cast<std::uint64_t>(shape.n)};
  map.strideBytes = {static_cast<std::uint64_t>(blocks * 144)};
  map.box = {144, 64};
  launch.arguments.tensorMap(map);
  launch.arguments.value(ProductArguments{.activations = activations,
                                          .bias = shape.bias ? linear.bias : nullptr,
                                          .out = linear.out,
                                          .partials = partials,
                                          .counters = counters,
                                          .outStride = linear.outStride,
                                          .m = static_cast<std::int32_t>(shape.m),
                                          .n = static_cast<std::int32_t>(shape.n),
                                          .schedule = plan.schedule});
}

}  // namespace

const Template& q4kLinearSmallMSm90() {
  static const SmallMSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
