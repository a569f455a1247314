#include "templates/attention/portable.h"

#include <algorithm>
#include <cmath>

#include "templates/common/cpu_target.h"

namespace tilewright {
namespace {

/// Query heads that one program can take as its rows.
constexpr std::int64_t kMostPackedHeads = 128;

struct Tile {
  std::int64_t rows, keys, microRows, microVectors;
  bool packed;

  Tile(const AttentionShape& shape, const Configuration& configuration)
      : rows(configuration["tile_m"]),
        keys(configuration["tile_kv"]),
        microRows(configuration["micro_rows"]),
        microVectors(configuration["micro_vectors"]),
        packed(configuration["pack_heads"] == 1) {
    if (packed) rows = shape.qHeads / shape.kvHeads;
  }

  std::int64_t blocks(const AttentionShape& shape) const { return packed ? shape.qLen : ceilDivide(shape.qLen, rows); }
  std::int64_t heads(const AttentionShape& shape) const { return packed ? shape.kvHeads : shape.qHeads; }
  /// Rows of Q in both formats, two carried outputs, scores and exponentials, copies of K and V, panels of both.
  std::int64_t stackBytes(const AttentionShape& shape, const CpuTarget& target) const {
    const std::int64_t panel = microVectors * target.lanes;
    return rows * shape.headDim * (4 + 2 + 4 + 4) + rows * keys * (4 + 4) + keys * shape.headDim * (2 + 2) +
           (keys + shape.headDim) * panel * 4;
  }
};

class AttentionPortable final : public Template {
 public:
  std::string_view id() const override { return "attention.portable"; }
  Operation operation() const override { return Operation::kAttention; }
  std::string_view summary() const override {
    return "any CPU, any layout: online softmax, packed panels of K and V, register micro-tiles";
  }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override {
    if (auto refusal = refusesOperation(*this, problem)) return refusal;
    if (auto refusal = refusesTarget(device)) return refusal;
    const AttentionShape& shape = problem.attention;
    const Tile tile(shape, defaultConfiguration(problem, device));
    if (tile.blocks(shape) > kMostPrograms || shape.qHeads > kMostPrograms || shape.batch > kMostPrograms) {
      return Refusal{"grid", fmt::format("q_len is {}, q_heads {} and batch {}, must make at most 2^32 - 1 blocks each",
                                         shape.qLen, shape.qHeads, shape.batch)};
    }
    return std::nullopt;
  }

  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override {
    return {{"tile_m", "query rows of a program", {64, 1, 2, 4, 8, 16, 32, 128}},
            {"tile_kv", "keys in one step", {64, 32, 128, 256}},
            {"pack_heads", "1: the rows are the query heads of a KV head at one position", {0, 1}},
            {"micro_rows", "rows of the register micro-tile", {8, 4, 6}},
            {"micro_vectors", "vectors in a row of the register micro-tile", {2, 1}},
            {"unroll", "steps of k in one iteration of the micro-tile's loop", {1, 2}}};
  }

  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override {
    if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
    const AttentionShape& shape = problem.attention;
    const CpuTarget target = *cpuTargetOf(device.target);
    const Tile tile(shape, configuration);
    if (tile.packed) {
      if (tile.rows == 1 || tile.rows > kMostPackedHeads) {
        return Refusal{"pack_heads", fmt::format("{} query heads share a KV head, must be from 2 to {} to be packed",
                                                 tile.rows, kMostPackedHeads)};
      }
      if (configuration["tile_m"] != 1) {
        return Refusal{"tile_m",
                       fmt::format("tile_m is {}, must be 1 where heads are packed", configuration["tile_m"])};
      }
    } else if (tile.rows > 1 && tile.rows / 2 >= shape.qLen) {
      return Refusal{"tile_m",
                     fmt::format("tile_m is {}, must be less than twice q_len, which is {}", tile.rows, shape.qLen)};
    }
    if (tile.microVectors * target.lanes > tile.keys) {
      return Refusal{"micro_vectors", fmt::format("micro_vectors is {}, must fit tile_kv, which is {}, with {} lanes",
                                                  tile.microVectors, tile.keys, target.lanes)};
    }
    const std::int64_t registers = tile.microRows * tile.microVectors + tile.microVectors + 1;
    if (registers > target.registers) {
      return Refusal{"registers", fmt::format("the micro-tile needs {} vector registers, must be at most {} on {}",
                                              registers, target.registers, device.target)};
    }
    if (tile.stackBytes(shape, target) > kMostStackBytes) {
      return Refusal{"stack", fmt::format("{} bytes of tile buffers, must be at most {}",
                                          tile.stackBytes(shape, target), kMostStackBytes)};
    }
    if (tile.blocks(shape) > kMostPrograms) {
      return Refusal{"grid", fmt::format("{} blocks of rows, must be at most 2^32 - 1", tile.blocks(shape))};
    }
    return std::nullopt;
  }

  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override {
    const AttentionShape& shape = problem.attention;
    const std::int64_t group = shape.qHeads / std::max<std::int64_t>(1, shape.kvHeads);
    const auto target = cpuTargetOf(device.target).value_or(CpuTarget{4, 16});
    // Pack heads when they fill a tile better than positions do.
    const bool pack = group > 1 && group <= kMostPackedHeads && shape.qLen < group;
    std::int64_t rows = 1;
    while (!pack && rows < shape.qLen && rows < 64) rows *= 2;
    return Configuration({{"tile_m", rows},
                          {"tile_kv", 64},
                          {"pack_heads", pack ? 1 : 0},
                          {"micro_rows", target.registers == 32 ? 8 : 6},
                          {"micro_vectors", 2},
                          {"unroll", 1}});
  }

  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    // Vector instructions of one step of tile_kv keys, one a cycle, at the rate that the nominal FLOP/s imply.
    const AttentionShape& shape = problem.attention;
    const CpuTarget target = *cpuTargetOf(device.target);
    const Tile tile(shape, configuration);
    const auto rows = static_cast<double>(tile.rows), keys = static_cast<double>(tile.keys);
    const auto headDim = static_cast<double>(shape.headDim);
    const auto microRows = static_cast<double>(tile.microRows), vectors = static_cast<double>(tile.microVectors);
    const double feed = std::max(1.0, (microRows + vectors) / (microRows * vectors) * 1.5);
    constexpr double kPackKeys = 8, kPackValues = 4, kSoftmax = 25, kRescale = 3, kRow = 60;
    const double perStep =
        2 * rows * keys * headDim / target.lanes * feed + (kPackKeys + kPackValues) * keys * headDim / target.lanes +
        kSoftmax * rows * keys / target.lanes + kRescale * rows * headDim / target.lanes + kRow * rows;

    const auto blocks = static_cast<double>(tile.blocks(shape));
    const double visible = flops(problem) / std::max(1.0, 4 * headDim * static_cast<double>(shape.batch) *
                                                              static_cast<double>(shape.qHeads));
    // Keys that the average block visits; a causal block's last tile is half masked.
    const double keysPerRow = visible / std::max<double>(1, static_cast<double>(shape.qLen));
    const double steps = std::max(1.0, std::ceil(keysPerRow / keys));
    const double programs = std::max(1.0, blocks * static_cast<double>(tile.heads(shape) * shape.batch));
    const double units = std::max(1, device.unitCount);
    const double rate = std::max(1.0, device.bf16FlopPerSecond) / units / target.flopsPerInstruction();
    const double compute = std::ceil(programs / units) * steps * perStep / rate;
    const double memory = bytes(problem) / std::max(1.0, device.memoryBytesPerSecond);
    constexpr double kLaunchMicroseconds = 2;
    return kLaunchMicroseconds + std::max(compute, memory) * 1e6;
  }

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration, const SourceCatalog&) const override {
    const AttentionShape& shape = problem.attention;
    BuildRequest request;
    request.kind = SourceKind::kTile;
    request.templateId = id();
    request.source = id();
    request.target = device.target;
    request.entries = {"attentionPortable"};
    for (const auto& [name, value] : configuration.entries()) {
      request.parameters.emplace_back(name, fmt::to_string(value));
    }
    request.parameters.emplace_back("head_dim", fmt::to_string(shape.headDim));
    request.parameters.emplace_back("group", fmt::to_string(shape.qHeads / shape.kvHeads));
    request.parameters.emplace_back("causal", shape.causal ? "1" : "0");
    request.parameters.emplace_back("lse", shape.logSumExp ? "1" : "0");
    return {std::move(request)};
  }

  std::int64_t workspaceBytes(const Problem&, const DeviceInfo&, const Configuration&) const override { return 0; }

  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    const AttentionShape& shape = problem.attention;
    const AttentionOperands& attention = operands.attention;
    if (shape.qLen == 0 || shape.batch == 0) return;

    // Blocks of one head come first: neighbours in the grid share K and V.
    const Tile tile(shape, configuration);
    const Dim3 grid{static_cast<std::uint32_t>(tile.blocks(shape)), static_cast<std::uint32_t>(tile.heads(shape)),
                    static_cast<std::uint32_t>(shape.batch)};
    KernelArguments& arguments = launches.addKernel(0, grid, {}).arguments;
    arguments.pointer(attention.q), arguments.pointer(attention.k), arguments.pointer(attention.v);
    arguments.pointer(attention.out), arguments.pointer(shape.logSumExp ? attention.lse : nullptr);
    arguments.pointer(attention.kvLen);
    arguments.value(attention.kvLen != nullptr ? shape.batch : std::int64_t{0});
    arguments.value(shape.qHeads), arguments.value(shape.qLen), arguments.value(attention.capacity);
    arguments.value(attention.scale);
    for (const Strides* strides : {&attention.qStride, &attention.kStride, &attention.vStride, &attention.outStride}) {
      arguments.value(strides->batch), arguments.value(strides->head);
      arguments.value(strides->row), arguments.value(strides->column);
    }
  }
};

}  // namespace

const Template& attentionPortable() {
  static const AttentionPortable kTemplate;
  return kTemplate;
}

}  // namespace tilewright
