// Host half of attention.tma_sm90: its space, rules, resources, cost model and launches. The kernel is explained in
// tma_sm90.cu, whose derived constants are asserted to equal the ones here.
#include "templates/attention/tma_sm90.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/integer.h"
#include "templates/attention/tensor_maps.h"
#include "templates/common/wgmma_overloads.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kSource = "templates/attention/tma_sm90.cu";

enum Schedule : std::int64_t { kStatic, kDynamic, kStreamK };

/// The kernel's Params. Strides in elements.
struct ParamsArgument {
  void* out;
  float* lse;
  const std::int32_t* kvLen;
  void* control;
  void* partials;
  std::int64_t outBatchStride, outHeadStride, outRowStride;
  std::int32_t batch, qHeads, kvHeads, qLen, capacity;
  std::int32_t rowTiles, sectionGroups;
  float scaleLog2;
};

/// What follows from a problem, a device and a configuration.
struct Geometry {
  std::int64_t headDim, tileM, tileN, stages, qRegisters, cluster, packHeads, schedule;
  std::int64_t warpgroups, threads, rowsPerHead, qStages, sharedBytes;
  std::int64_t clusters;  ///< that the device holds at once
  std::int64_t rowTiles;  ///< of one head
  std::int64_t groups;    ///< of heads that a cluster works on at once

  Geometry(const AttentionShape& shape, const DeviceInfo& device, const Configuration& configuration)
      : headDim(shape.headDim),
        tileM(configuration["tile_m"]),
        tileN(configuration["tile_n"]),
        stages(configuration["stages"]),
        qRegisters(configuration["q_registers"]),
        cluster(configuration["cluster"]),
        packHeads(configuration["pack_heads"]),
        schedule(configuration["schedule"]),
        warpgroups(tileM / 64),
        threads((warpgroups + 1) * 128),
        rowsPerHead(tileM / packHeads),
        qStages(1),
        clusters(device.unitCount / cluster),
        rowTiles(ceilDiv(shape.qLen, rowsPerHead)),
        groups(shape.batch * shape.qHeads / (cluster * packHeads)) {
    // A second Q tile lets the next one load early. Fragments in registers free the first at once.
    sharedBytes = sharedBytesFor(1);
    if (qRegisters == 0 && sharedBytesFor(2) <= device.sharedBytesPerBlock)
      qStages = 2, sharedBytes = sharedBytesFor(2);
  }

  /// The kernel's Shared: Q tiles, K and V blocks, two pieces of work of 7 words, barriers, 8 mail slots; and
  /// alignment.
  std::int64_t sharedBytesFor(std::int64_t qTiles) const {
    const std::int64_t tiles = qTiles * tileM * headDim * 2 + 2 * stages * tileN * headDim * 2;
    const std::int64_t barriers = 8 * (4 + 2 * qTiles + 4 * stages + 8);
    return roundUp(tiles + 2 * 28 + barriers + 8 * 4, 1024) + 1024;
  }

  /// Registers that a consumer needs: O, S and P, Q, and what addresses, row statistics and loops were seen to take.
  std::int64_t registersNeeded() const { return headDim / 2 + tileN / 2 + tileN / 4 + qRegisters * headDim / 4 + 32; }
  std::int64_t registersGiven() const { return warpgroups == 2 ? 232 : 160; }

  std::int64_t tiles() const { return rowTiles * groups; }
  std::int64_t grid() const {
    return cluster * (schedule == kStreamK ? clusters : std::min(clusters, std::max<std::int64_t>(1, tiles())));
  }
  /// Flags, or the tile counter.
  std::int64_t controlBytes() const {
    return schedule == kStreamK ? roundUp(clusters * cluster * warpgroups * 4, 256) : schedule == kDynamic ? 256 : 0;
  }
  /// A slot per cluster, of a partial per CTA and warpgroup: O, and a maximum and a sum per row.
  std::int64_t partialBytes() const {
    return schedule == kStreamK ? clusters * cluster * warpgroups * (headDim / 8 + 1) * 128 * 16 : 0;
  }

  /// Head groups whose K and V fit `sectionMb` together, but at least about two tiles per cluster, for longest-first
  /// balances only within a section.
  std::int64_t sectionGroups(const AttentionShape& shape, std::int64_t sectionMb) const {
    if (sectionMb == 0) return std::max<std::int64_t>(1, groups);
    const std::int64_t kvBytes = std::max<std::int64_t>(1, 4 * shape.kvLen * headDim);
    const std::int64_t perKvHead = std::max<std::int64_t>(1, shape.qHeads / shape.kvHeads / (cluster * packHeads));
    const std::int64_t forCache = perKvHead * std::max<std::int64_t>(1, (sectionMb << 20) / kvBytes);
    const std::int64_t forBalance = ceilDiv(2 * clusters, std::max<std::int64_t>(1, rowTiles));
    return std::clamp<std::int64_t>(std::max(forCache, forBalance), 1, std::max<std::int64_t>(1, groups));
  }
};

class AttentionTmaSm90 final : public Template {
 public:
  std::string_view id() const override { return "attention.tma_sm90"; }
  Operation operation() const override { return Operation::kAttention; }
  std::string_view summary() const override {
    return "Hopper: TMA, wgmma, warp specialization, persistent; head dims 64, 128, 256, aligned operands";
  }
  bool demandsCleanBuild() const override { return true; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override {
    return refusesHopperAttention(*this, problem, device);
  }

  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override {
    return {{"tile_m", "query rows of a tile, 64 per computing warpgroup", {128, 192}},
            {"tile_n", "keys of a block", {128, 80, 64, 96, 112, 160, 176}},
            {"stages", "K and V blocks in flight", {2, 3, 4}},
            {"q_registers", "1: Q stays in registers", {0, 1}},
            {"cluster", "CTAs that share loads of K and V", {1, 2}},
            {"pack_heads", "query heads of a tile", {1, 2, 4, 8}},
            {"ping_pong", "1: warpgroups issue products in turns", {0, 1}},
            {"schedule", "0: static, 1: dynamic, 2: stream-K", {kStatic, kDynamic, kStreamK}},
            {"l2_section_mb", "MiB of K and V that concurrent tiles share; 0: all", {0, 64}},
            {"rescale_threshold", "growth of a row's maximum, in powers of two, that rescales O", {8, 0}}};
  }

  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override {
    if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    const std::int64_t together = geometry.cluster * geometry.packHeads, group = shape.qHeads / shape.kvHeads;
    if (group % together != 0) {
      return Refusal{
          "group", fmt::format("cluster * pack_heads is {}, must divide the group of {} query heads", together, group)};
    }
    if (geometry.rowsPerHead % 16 != 0) {
      return Refusal{"pack_heads", fmt::format("tile_m / pack_heads is {}, must be a multiple of a warp's 16 rows",
                                               geometry.rowsPerHead)};
    }
    if (geometry.registersNeeded() > geometry.registersGiven()) {
      return Refusal{"registers",
                     fmt::format("about {} registers per thread, must be at most {} with {} warpgroups",
                                 geometry.registersNeeded(), geometry.registersGiven(), geometry.warpgroups)};
    }
    if (geometry.sharedBytes > device.sharedBytesPerBlock) {
      return Refusal{"shared_memory", fmt::format("{} bytes of shared memory, must be at most {}", geometry.sharedBytes,
                                                  device.sharedBytesPerBlock)};
    }
    if (geometry.clusters < 1) {
      return Refusal{"cluster", fmt::format("a cluster of {} needs as many SMs, the device has {}", geometry.cluster,
                                            device.unitCount)};
    }
    return std::nullopt;
  }

  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override {
    // The tiles that won in measurements, each with every way to schedule it; the cost model chooses.
    // NOTE: with Q in registers stream-K is a few registers short, as it is at 256 columns with eight heads.
    struct Tile {
      std::int64_t headDim, tileM, tileN, stages, qRegisters;
    };
    static constexpr std::array kTiles = {Tile{64, 192, 128, 3, 0},  Tile{64, 128, 128, 3, 0},
                                          Tile{128, 192, 80, 3, 0},  Tile{128, 128, 128, 3, 1},
                                          Tile{128, 128, 128, 2, 0}, Tile{256, 128, 80, 2, 0}};
    Configuration best;
    double bestTime = 0;
    for (const Tile& tile : kTiles) {
      if (tile.headDim != problem.attention.headDim) continue;
      for (const std::int64_t cluster : {1, 2}) {
        for (const std::int64_t packHeads : {1, 2, 4, 8}) {
          for (const std::int64_t schedule : {kStatic, kDynamic, kStreamK}) {
            if (schedule == kStreamK && (tile.qRegisters == 1 || (tile.headDim == 256 && packHeads == 8))) continue;
            const bool pingPong = tile.tileM == 128 || tile.headDim == 64;
            Configuration candidate({{"tile_m", tile.tileM},
                                     {"tile_n", tile.tileN},
                                     {"stages", tile.stages},
                                     {"q_registers", tile.qRegisters},
                                     {"cluster", cluster},
                                     {"pack_heads", packHeads},
                                     {"ping_pong", pingPong},
                                     {"schedule", schedule},
                                     {"l2_section_mb", 64},
                                     {"rescale_threshold", 8}});
            if (refusesConfiguration(problem, device, candidate)) continue;
            const double time = predictMicroseconds(problem, device, candidate);
            if (best.empty() || time < bestTime) best = std::move(candidate), bestTime = time;
          }
        }
      }
    }
    return best;
  }

  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    // Fitted to measurements on an H200 (docs/notes/attention.md): microseconds of a launch, of zeroing the workspace,
    // of a cooperative launch with a fix-up, and of adding one more partial to a tile of 128 x 128; the rate of the
    // long loop, of the matrix rate that the device reports; the time between tiles; and the rate of tiles that wait
    // for K and V, of the memory's.
    constexpr double kLaunch = 8, kZero = 1, kFixUp = 8, kPartial = 0.2, kMemory = 0.55;
    constexpr double kCutBlocks = 3;  // kCutCost of the scheduler
    // Owners of cut tiles wait for the slowest of the others: what a cut gains on paper must exceed that.
    constexpr double kCutGain = 0.95;
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    const auto tiles = static_cast<double>(geometry.tiles());
    if (tiles == 0 || device.bf16FlopPerSecond == 0 || device.memoryBytesPerSecond == 0) return kLaunch;
    const bool wide = geometry.warpgroups == 3, cut = geometry.schedule == kStreamK;
    double rate = shape.headDim == 64 ? 0.59 : 0.767;
    if (!wide && shape.headDim < 256) rate *= shape.headDim == 64 ? 0.86 : 0.95;
    if (geometry.cluster == 2) rate *= !wide ? 1.02 : cut ? 1.01 : 0.99;
    if (configuration["rescale_threshold"] == 0) rate *= 0.95;
    if (geometry.stages == 2 && shape.headDim < 256) rate *= 0.98;
    if (geometry.tileN < 80) rate *= 0.96;
    const double between = wide ? 1.4 : 0.9;
    const double memory = bytes(problem) / (kMemory * device.memoryBytesPerSecond) * 1e6;

    // Times of the longest and the shortest tile, and of all.
    const auto blocks = [&](std::int64_t lastRow) {
      const std::int64_t visible = shape.causal ? shape.kvLen - shape.qLen + lastRow + 1 : shape.kvLen;
      return static_cast<double>(std::max<std::int64_t>(1, ceilDiv(visible, geometry.tileN)));
    };
    const double perUnit = device.bf16FlopPerSecond / device.unitCount * 1e-6 * rate;
    const double block = 4.0 * static_cast<double>(geometry.tileM * geometry.tileN * shape.headDim) / perUnit;
    const double longest = blocks(shape.qLen - 1) * block + between;
    const double shortest = blocks(std::min(geometry.rowsPerHead, shape.qLen) - 1) * block + between;
    const double average = (longest + shortest) / 2;
    const auto units = static_cast<double>(geometry.clusters);

    if (cut) {
      const double waves = std::floor(tiles / units), rest = tiles - waves * units;
      const double shared = rest * (average + kCutBlocks * block) / units;
      const bool worthwhile = shared < kCutGain * average - kCutBlocks * block;
      const double fixed = kLaunch + kZero + kFixUp, whole = 1.02 * waves * average;
      if (rest == 0 || !worthwhile) return fixed + std::max(whole + (rest == 0 ? 0 : longest), memory);
      const double partials = std::min(units / rest, average / block) - 1;
      const double area = static_cast<double>(geometry.tileM * shape.headDim) / (128 * 128);
      return fixed + kPartial * area * std::max(0.0, partials) + std::max(whole + shared, memory);
    }
    // Longest first ends at most a shortest tile late; equal tiles end in whole waves. A fixed order deals badly with
    // sections.
    const bool sections = geometry.sectionGroups(shape, configuration["l2_section_mb"]) < geometry.groups;
    const double share = tiles * average / units;
    const double makespan = std::max({longest, std::min(std::ceil(tiles / units) * longest, share + shortest), memory});
    return kLaunch + (geometry.schedule == kDynamic ? kZero + makespan : makespan * (sections ? 1.15 : 1.002));
  }

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override {
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    BuildRequest request;
    request.templateId = id();
    request.target = device.target;
    request.entries = {"attention_tma_sm90"};
    const auto parameter = [&](std::string name, std::int64_t value) {
      request.parameters.emplace_back(std::move(name), fmt::to_string(value));
    };
    parameter("head_dim", shape.headDim);
    parameter("causal", shape.causal);
    parameter("log_sum_exp", shape.logSumExp);
    for (const auto& [name, value] : configuration.entries()) {
      if (name != "l2_section_mb") parameter(name, value);  // an argument
    }
    parameter("q_stages", geometry.qStages);

    using Type = WgmmaShape::Type;
    const auto n = static_cast<int>(geometry.tileN), d = static_cast<int>(geometry.headDim);
    const std::array shapes = {WgmmaShape{Type::kBf16, n, false}, WgmmaShape{Type::kBf16, n, true},
                               WgmmaShape{Type::kBf16TransposedB, d, true}};
    request.source = parameterPrelude(request.parameters) + wgmmaOverloads(shapes) + sources.text(kSource) +
                     fmt::format(
                         "static_assert(tilewright::kSharedBytes == {} && tilewright::kThreads == {} && "
                         "tilewright::kRowsPerHead == {} && sizeof(tilewright::Params) == {}, "
                         "\"host and device disagree\");\n",
                         geometry.sharedBytes, geometry.threads, geometry.rowsPerHead, sizeof(ParamsArgument));
    request.includes = sources.includesOf(kSource);
    return {std::move(request)};
  }

  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override {
    const Geometry geometry(problem.attention, device, configuration);
    return geometry.controlBytes() + geometry.partialBytes();
  }

  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    const AttentionShape& shape = problem.attention;
    const AttentionOperands& attention = operands.attention;
    const Geometry geometry(shape, device, configuration);
    if (geometry.tiles() == 0) return;

    if (geometry.controlBytes() > 0) launches.addFill(workspace, 0, static_cast<std::size_t>(geometry.controlBytes()));
    Launch& launch = launches.addKernel(0, {static_cast<std::uint32_t>(geometry.grid()), 1, 1},
                                        {static_cast<std::uint32_t>(geometry.threads), 1, 1},
                                        static_cast<std::uint32_t>(geometry.sharedBytes));
    launch.cluster.x = static_cast<std::uint32_t>(geometry.cluster);
    // NOTE: owners of cut tiles wait for other CTAs, which must therefore all be resident.
    launch.cooperative = geometry.schedule == kStreamK;

    const auto boxKeys = static_cast<std::uint32_t>(geometry.tileN / geometry.cluster);
    KernelArguments& arguments = launch.arguments;
    arguments.tensorMap(
        attentionMap(attention.q, attention.qStride, {shape.headDim, shape.qLen, shape.qHeads, shape.batch},
                     static_cast<std::uint32_t>(geometry.rowsPerHead), static_cast<std::uint32_t>(geometry.packHeads)));
    arguments.tensorMap(attentionKeyMap(problem, attention, boxKeys));
    arguments.tensorMap(attentionValueMap(problem, attention, boxKeys));
    const auto word = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    arguments.value(ParamsArgument{
        .out = attention.out,
        .lse = attention.lse,
        .kvLen = attention.kvLen,
        .control = workspace,
        .partials = static_cast<std::byte*>(workspace) + geometry.controlBytes(),
        .outBatchStride = attention.outStride.batch,
        .outHeadStride = attention.outStride.head,
        .outRowStride = attention.outStride.row,
        .batch = word(shape.batch),
        .qHeads = word(shape.qHeads),
        .kvHeads = word(shape.kvHeads),
        .qLen = word(shape.qLen),
        .capacity = word(attention.capacity),
        .rowTiles = word(geometry.rowTiles),
        .sectionGroups = word(geometry.sectionGroups(shape, configuration["l2_section_mb"])),
        .scaleLog2 = attention.scale * 1.4426950408889634f,
    });
  }
};

}  // namespace

const Template& attentionTmaSm90() {
  static const AttentionTmaSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
