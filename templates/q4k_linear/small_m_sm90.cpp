// Problem: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in Q4_K and few rows; small_m_sm90.cu explains the
// kernel.
#include "templates/q4k_linear/small_m_sm90.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/integer.h"
#include "templates/q4k_linear/split_schedule.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kKernelSource = "templates/q4k_linear/small_m_sm90.cu";
constexpr std::string_view kQuantizeSource = "templates/q4k_linear/small_m_quantize.cu";

constexpr std::int64_t kMostTokens = 32;
constexpr std::int64_t kGroupBytes = 2560;  // activations of 8 tokens and 256 k, small_m_activations.cuh

/// Where the product finds its activations.
enum class SmallMActivations : std::int64_t { kWithSteps = 0, kResident = 1, kQuantizedHere = 2 };

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
  const void* x;
  const void* bias;
  void* out;
  void* partials;
  std::uint32_t* counters;
  std::int64_t xStride, outStride;
  std::int32_t m, n, blocks, isFirst;
  SplitSchedule schedule;
};

/// Value of the parameter `split` beyond SplitMode's.
constexpr std::int64_t kTickets = 3;

/// One configuration for one problem.
struct SmallMTile {
  std::int64_t rowWarps, splitWarps;
  SmallMActivations activations;
  std::int64_t blocksPerUnit;
  bool tickets;
  SplitMode splitMode;
  std::int64_t groups, blocks;  ///< of 8 tokens; super-blocks of k

  SmallMTile(const Configuration& configuration, const LinearShape& shape)
      : rowWarps(configuration["row_warps"]),
        splitWarps(configuration["split_warps"]),
        activations(static_cast<SmallMActivations>(configuration["activations"])),
        blocksPerUnit(configuration["blocks_per_unit"]),
        tickets(configuration["split"] == kTickets),
        splitMode(tickets ? SplitMode::kNone : static_cast<SplitMode>(configuration["split"])),
        groups(std::max<std::int64_t>(1, (shape.m + 7) / 8)),
        blocks(shape.k / 256) {}

  std::int64_t rows() const { return rowWarps * 16; }
  std::int64_t warps() const { return rowWarps * splitWarps; }
  std::int64_t threads() const { return warps() * 32 + 32; }
  bool quantizesHere() const { return activations == SmallMActivations::kQuantizedHere; }
  /// In global memory.
  std::int64_t activationBytes() const { return quantizesHere() ? 0 : roundUp(blocks * groups * kGroupBytes, 256); }

  std::int64_t stepBytes() const {
    return splitWarps * rows() * 144 +
           (activations == SmallMActivations::kWithSteps ? splitWarps * groups * kGroupBytes : 0);
  }
  std::int64_t residentBytes() const {
    return activations == SmallMActivations::kWithSteps ? 0 : blocks * groups * kGroupBytes;
  }
  /// Without resident activations; as small_m_sm90.cu lays it out, which asserts this number.
  std::int64_t fixedBytes(std::int64_t stages) const {
    const std::int64_t sums = splitWarps > 1 ? 2 * warps() * groups * 512 : 0;
    return stages * stepBytes() + sums + roundUp(20 * stages + 8, 128) + 128;
  }
  /// As many as the SM's shared memory holds for each of its blocks, at most 16.
  std::int64_t stages(const DeviceInfo& device) const {
    constexpr std::int64_t kReserved = 1024;  // of each block, by the system
    const std::int64_t most =
        std::min(device.sharedBytesPerBlock, device.sharedBytesPerUnit / blocksPerUnit - kReserved);
    std::int64_t stages = 16;
    while (stages > 0 && fixedBytes(stages) + residentBytes() > most) --stages;
    return stages;
  }
  std::int64_t sharedBytes(const DeviceInfo& device) const { return fixedBytes(stages(device)) + residentBytes(); }

  /// In steps of splitWarps super-blocks.
  SplitPlan split(const LinearShape& shape, const DeviceInfo& device) const {
    const std::int64_t steps = (blocks + splitWarps - 1) / splitWarps;
    return planSplit(shape.n, steps * 256, 1, {rows(), 1}, static_cast<int>(device.unitCount * blocksPerUnit),
                     splitMode);
  }
};

/// Where what lies in the workspace.
struct Layout {
  std::int64_t activationBytes, counterBytes, partialBytes;
  std::int64_t counters;

  Layout(const SmallMTile& tile, const SplitPlan& plan, const LinearShape& shape) {
    counters = tile.tickets ? 1 : plan.splitTiles * tile.rowWarps;
    activationBytes = tile.activationBytes();
    counterBytes = roundUp(counters * 4, 256);
    partialBytes = plan.slots * tile.rowWarps * tile.groups * 32 * 16;
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
    return {{"row_warps", "groups of 16 rows of W of a tile", {8, 4, 2, 1}},
            {"split_warps", "super-blocks of k of a step, and warps for each group of rows", {1, 2, 4, 8}},
            {"activations", "0 with each step, 1 resident, 2 resident and quantized by the product itself", {0, 1, 2}},
            {"blocks_per_unit", "blocks that share an SM", {1, 2}},
            {"split",
             "cuts along k: 0 none, 1 equal shares for all blocks, 2 equal slices of a tile; 3 none, tiles by ticket",
             {0, 2, 1, 3}}};
  }
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override;
  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override;
  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override;
  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override;
  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override;
  std::string_view activationFormat(const Problem& problem, const DeviceInfo&,
                                    const Configuration& configuration) const override {
    return SmallMTile(configuration, problem.linear).quantizesHere() ? "" : "s8/32";
  }
  std::int64_t activationBytes(const Problem& problem, const DeviceInfo&,
                               const Configuration& configuration) const override {
    return SmallMTile(configuration, problem.linear).activationBytes();
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
  if (tile.warps() < 4 || tile.warps() > 16) {
    return Refusal{"warps", fmt::format("{} consumer warps, must be 4 to 16", tile.warps())};
  }
  if (tile.tickets && (problem.linear.n + tile.rows() - 1) / tile.rows() <= device.unitCount * tile.blocksPerUnit) {
    return Refusal{"tickets",
                   fmt::format("n = {} has no more tiles of {} rows than blocks, so there is nothing to draw",
                               problem.linear.n, tile.rows())};
  }
  if (tile.stages(device) < 3) {
    return Refusal{
        "shared_memory",
        fmt::format("{} blocks of an SM leave room for {} steps of {} bytes beside {} of activations, must be 3",
                    tile.blocksPerUnit, tile.stages(device), tile.stepBytes(), tile.residentBytes())};
  }
  if (tile.blocksPerUnit * tile.threads() > 576 && tile.groups > 2) {
    return Refusal{"registers", fmt::format("{} threads on an SM leave too few registers for {} groups of tokens",
                                            tile.blocksPerUnit * tile.threads(), tile.groups)};
  }
  return std::nullopt;
}

Configuration SmallMSm90::defaultConfiguration(const Problem& problem, const DeviceInfo& device) const {
  // row_warps, split_warps, activations of the configurations that win somewhere; the last fits every problem.
  constexpr std::array<std::array<std::int64_t, 3>, 7> kUsual = {
      {{4, 2, 1}, {2, 4, 1}, {2, 4, 2}, {4, 4, 2}, {4, 2, 0}, {2, 4, 0}, {8, 1, 0}}};
  Configuration best;
  double bestTime = std::numeric_limits<double>::infinity();
  for (const auto& usual : kUsual) {
    for (const std::int64_t split : {0, 2, 1, 3}) {
      const Configuration candidate({{"row_warps", usual[0]},
                                     {"split_warps", usual[1]},
                                     {"activations", usual[2]},
                                     {"blocks_per_unit", 1},
                                     {"split", split}});
      if (refusesConfiguration(problem, device, candidate)) continue;
      const double time = predictMicroseconds(problem, device, candidate);
      if (time < bestTime) best = candidate, bestTime = time;
    }
  }
  return best;
}

double SmallMSm90::predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                                       const Configuration& configuration) const {
  const LinearShape& shape = problem.linear;
  const SmallMTile tile(configuration, shape);
  const SplitPlan plan = tile.split(shape, device);
  const auto count = [](std::int64_t v) { return static_cast<double>(v); };

  // Issue: about 250 instructions a warp and super-block for the first group of tokens and 130 for each further one, on
  // four schedulers, beside whatever else the SM's blocks hold; a lone warp on a scheduler waits for its own results.
  const double busy = std::max(1.0, count(tile.warps() * tile.blocksPerUnit) / 4);
  const double block = (120 + 130 * count(tile.groups)) * (busy < 2 ? 1.6 : 1.15) * busy;
  const double compute = count(plan.longestBlock()) * block / 1.75e9 * 1e6;
  // Memory: the busiest block's share of the stream at an SM's rate. Tickets even out unequal SMs, if there are several
  // for each.
  const double step = count(tile.splitWarps * tile.rows()) * 144 * count(tile.blocksPerUnit);
  const int units = std::max(1, device.unitCount);
  const double share = !tile.tickets ? 0.72 : plan.schedule.tiles >= 3 * units ? 0.76 : 0.70;
  const double rate = share * device.memoryBytesPerSecond / units;
  const double further = 1 + 0.08 * count(tile.groups - 1);  // groups of tokens slow the stream down
  const double memory = count(plan.longestBlock()) * step / std::max(1.0, rate) * 1e6 * further;
  const double split = plan.slots == 0 ? 0 : tile.splitMode == SplitMode::kShares ? 7.5 : 1.5;
  // Quantization: another kernel, or this one's first microseconds, from L2.
  const double values = count(shape.m) * count(shape.k);
  const double quantize = tile.quantizesHere() ? 0.5 + values / 6e3 : 2.5;
  return 7.0 + std::max(compute, memory) + 0.15 * std::min(compute, memory) + split + quantize;
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
  if (!tile.quantizesHere()) {
    add(kQuantizeSource, "quantizeSmallM", "SmallMQuantizeArguments", sizeof(QuantizeArguments), {});
  }
  const std::int64_t stages = tile.stages(device);
  add(kKernelSource, "q4kLinearSmallM", "SmallMArguments", sizeof(ProductArguments),
      {{"token_groups", fmt::to_string(tile.groups)},
       {"row_warps", fmt::to_string(tile.rowWarps)},
       {"split_warps", fmt::to_string(tile.splitWarps)},
       {"activations", fmt::to_string(configuration["activations"])},
       {"stages", fmt::to_string(stages)},
       {"tickets", tile.tickets ? "1" : "0"},
       {"blocks_per_unit", fmt::to_string(tile.blocksPerUnit)},
       {"fixed_shared_bytes", fmt::to_string(tile.fixedBytes(stages))}});
  return requests;
}

std::int64_t SmallMSm90::workspaceBytes(const Problem& problem, const DeviceInfo& device,
                                        const Configuration& configuration) const {
  const SmallMTile tile(configuration, problem.linear);
  const Layout layout(tile, tile.split(problem.linear, device), problem.linear);
  return layout.activationBytes + layout.counterBytes + layout.partialBytes;
}

/// Appends the quantization of `blocks` super-blocks of k of every token into `activations`, which zeroes the counters
/// too; of no super-blocks, only that.
void encodeQuantization(const SmallMTile& tile, std::int64_t blocks, const LinearShape& shape,
                        const LinearOperands& operands, void* activations, std::uint32_t* counters,
                        std::int64_t counterCount, LaunchList& launches) {
  const auto count = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  // A warp for each token, padding included, and super-block.
  const std::int64_t grid = std::max<std::int64_t>(1, blocks * tile.groups);
  launches.addKernel(0, {static_cast<std::uint32_t>(grid), 1, 1}, {256, 1, 1})
      .arguments.value(QuantizeArguments{.x = operands.x,
                                         .activations = activations,
                                         .counters = counters,
                                         .xStride = operands.xStride / 8,
                                         .m = count(shape.m),
                                         .blocks = count(blocks),
                                         .groups = count(tile.groups),
                                         .counterCount = count(counterCount)});
}

void SmallMSm90::encodeActivations(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                                   const Operands& operands, void* activations, LaunchList& launches) const {
  const SmallMTile tile(configuration, problem.linear);
  if (tile.quantizesHere() || problem.linear.m == 0) return;
  encodeQuantization(tile, tile.blocks, problem.linear, operands.linear, activations, nullptr, 0, launches);
}

// Without `given` x is quantized within the call.
void SmallMSm90::encodeQuantized(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                                 const Operands& operands, const void* given, void* workspace, const void*,
                                 LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  if (shape.m == 0) return;
  const SmallMTile tile(configuration, shape);
  const SplitPlan plan = tile.split(shape, device);
  const Layout layout(tile, plan, shape);
  std::byte* const activations = static_cast<std::byte*>(workspace);
  auto* const counters = reinterpret_cast<std::uint32_t*>(activations + layout.activationBytes);
  std::byte* const partials = activations + layout.activationBytes + layout.counterBytes;

  const auto count = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  if (tile.quantizesHere()) {
    if (layout.counters > 0) launches.addFill(counters, 0, static_cast<std::size_t>(layout.counterBytes));
  } else {
    const std::int64_t quantized = given == nullptr ? tile.blocks : 0;
    if (quantized + layout.counters > 0) {
      encodeQuantization(tile, quantized, shape, linear, activations, counters, layout.counters, launches);
    }
  }

  Launch& launch = launches.addKernel(tile.quantizesHere() ? 0 : 1, {static_cast<std::uint32_t>(plan.grid), 1, 1},
                                      {static_cast<std::uint32_t>(tile.threads()), 1, 1},
                                      static_cast<std::uint32_t>(tile.sharedBytes(device)));
  launch.programmaticDependent = !tile.quantizesHere();
  // Bytes of a super-block, rows, super-blocks of k: a step is one copy, and shared memory has 144 bytes from row to
  // row.
  const auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  TensorMap map;
  map.base = linear.w, map.element = TensorMap::Element::kU8, map.rank = 3;
  map.size = {144, size(shape.n), size(tile.blocks)};
  map.strideBytes = {size(tile.blocks * 144), 144};
  map.box = {144, static_cast<std::uint32_t>(tile.rows()), static_cast<std::uint32_t>(tile.splitWarps)};
  launch.arguments.tensorMap(map);
  launch.arguments.value(ProductArguments{.activations = given != nullptr ? given : activations,
                                          .x = linear.x,
                                          .bias = shape.bias ? linear.bias : nullptr,
                                          .out = linear.out,
                                          .partials = partials,
                                          .counters = counters,
                                          .xStride = linear.xStride / 8,
                                          .outStride = linear.outStride,
                                          .m = count(shape.m),
                                          .n = count(shape.n),
                                          .blocks = count(tile.blocks),
                                          .isFirst = given != nullptr && layout.counters == 0,
                                          .schedule = plan.schedule});
}

}  // namespace

const Template& q4kLinearSmallMSm90() {
  static const SmallMSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
