// Host half of attention.decode_sm90: its space, rules, resources, cost model and launches. The kernels are explained
// in decode_sm90.cu, whose derived constants are asserted to equal the ones here.
#include "templates/attention/decode_sm90.h"

#include <algorithm>
#include <cmath>

#include "templates/attention/tensor_maps.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kSource = "templates/attention/decode_sm90.cu";
constexpr std::int64_t kMaximumRows = 16;
constexpr std::uint32_t kCombineThreads = 256;

constexpr std::int64_t roundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The kernels' Params. Strides in elements.
struct ParamsArgument {
  const void* q;
  void* out;
  float* lse;
  const std::int32_t* kvLen;
  void* partials;
  std::int64_t qBatchStride, qHeadStride, qRowStride;
  std::int64_t outBatchStride, outHeadStride, outRowStride;
  std::int32_t batch, qHeads, kvHeads, qLen, capacity;
  std::int32_t rowTiles, pieces;
  float scaleLog2;
};

/// What follows from a problem, a device and a configuration.
struct Geometry {
  std::int64_t headDim, rowTile, tileN, stages, warps, blocksPerSm;
  std::int64_t rowWarps, keyWarps, threads;
  std::int64_t packedRows;  ///< query rows of a KV head's group
  std::int64_t rowTiles;    ///< of one KV head
  std::int64_t tiles;       ///< of all
  std::int64_t pieces;      ///< CTAs of the first kernel

  Geometry(const AttentionShape& shape, const DeviceInfo& device, const Configuration& configuration)
      : headDim(shape.headDim),
        rowTile(configuration["row_tile"]),
        tileN(configuration["tile_n"]),
        stages(configuration["stages"]),
        warps(configuration["warps"]),
        blocksPerSm(configuration["blocks_per_sm"]),
        rowWarps(rowTile / 16),
        keyWarps(warps / rowWarps),
        threads((warps + 1) * 32),
        packedRows(shape.qLen * (shape.qHeads / shape.kvHeads)),
        rowTiles(ceilDiv(packedRows, rowTile)),
        tiles(shape.batch * shape.kvHeads * rowTiles),
        pieces(device.unitCount * blocksPerSm) {}

  /// The kernel's Shared: K and V stages, the key warps' O, maxima and sums, the merged ones, barriers; and alignment.
  std::int64_t sharedBytes() const {
    const std::int64_t merged = keyWarps * rowTile * (headDim + 8) * 4, statistics = (2 * keyWarps + 2) * rowTile * 4;
    return roundUp(stages * 2 * tileN * headDim * 2 + merged + statistics + stages * 4 * 8, 1024) + 1024;
  }

  /// Registers of a computing thread: O, Q, S and P, and what addresses and row statistics were seen to take.
  std::int64_t registersNeeded() const {
    return headDim / 2 + headDim / 4 + tileN / keyWarps / 2 + tileN / keyWarps / 4 + 40;
  }
  /// An SM has four schedulers with 512 registers per lane each.
  std::int64_t registersGiven() const {
    return std::min<std::int64_t>(255, 512 / ceilDiv((warps + 1) * blocksPerSm, 4) / 8 * 8);
  }

  /// Two slots per CTA: O of every packed row, its maximum and its sum.
  std::int64_t partialBytes() const { return roundUp(2 * pieces * rowTile * (headDim + 2) * 4, 256); }
};

class AttentionDecodeSm90 final : public Template {
 public:
  std::string_view id() const override { return "attention.decode_sm90"; }
  Operation operation() const override { return Operation::kAttention; }
  std::string_view summary() const override {
    return "Hopper, 1 to 16 query rows: packed groups, KV split over all SMs by its length on the device";
  }
  bool demandsCleanBuild() const override { return true; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override {
    if (auto refusal = refusesHopperAttention(*this, problem, device)) return refusal;
    if (problem.attention.qLen > kMaximumRows) {
      return Refusal{"q_len", fmt::format("q_len is {}, must be at most {}", problem.attention.qLen, kMaximumRows)};
    }
    return std::nullopt;
  }

  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override {
    return {{"row_tile", "packed query rows of a tile", {16, 32, 64}},
            {"tile_n", "keys of a block", {64, 128, 32}},
            {"stages", "blocks in flight", {4, 2, 3, 6, 8}},
            {"warps", "computing warps of a CTA", {4, 8}},
            {"blocks_per_sm", "CTAs that share an SM", {1, 2}},
            {"rescale_threshold", "growth of a row's maximum, in powers of two, that rescales O", {8, 0}}};
  }

  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override {
    if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
    const Geometry geometry(problem.attention, device, configuration);
    if (geometry.keyWarps * geometry.rowWarps != geometry.warps || geometry.tileN % (16 * geometry.keyWarps) != 0) {
      return Refusal{"warps", fmt::format("{} warps hold {} x 16 rows; tile_n is {}, must be a multiple of 16 keys for "
                                          "each of the {} key warps",
                                          geometry.warps, geometry.rowWarps, geometry.tileN, geometry.keyWarps)};
    }
    if (geometry.registersNeeded() > geometry.registersGiven()) {
      return Refusal{"registers", fmt::format("about {} registers per thread, must be at most {}",
                                              geometry.registersNeeded(), geometry.registersGiven())};
    }
    // Every block keeps 1024 bytes for the system.
    const std::int64_t limit =
        std::min(device.sharedBytesPerBlock, device.sharedBytesPerUnit / geometry.blocksPerSm - 1024);
    if (geometry.sharedBytes() > limit) {
      return Refusal{"shared_memory",
                     fmt::format("{} bytes of shared memory, must be at most {}", geometry.sharedBytes(), limit)};
    }
    return std::nullopt;
  }

  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override {
    // One tile per KV head where it fits, and the most bytes in flight.
    const AttentionShape& shape = problem.attention;
    const std::int64_t rows = shape.qLen * (shape.qHeads / shape.kvHeads);
    const std::int64_t rowTile = rows <= 16 ? 16 : rows <= 32 || shape.headDim == 256 ? 32 : 64;
    const std::int64_t warps = rowTile == 64 ? 8 : 4;
    Configuration configuration({{"row_tile", rowTile},
                                 {"tile_n", shape.headDim == 256 && rowTile == 32 ? 32 : 64},
                                 {"stages", 8},
                                 {"warps", warps},
                                 {"blocks_per_sm", 1},
                                 {"rescale_threshold", 8}});
    for (const std::int64_t stages : {8, 6, 4, 3, 2}) {
      configuration.set("stages", stages);
      if (!refusesConfiguration(problem, device, configuration)) break;
    }
    return configuration;
  }

  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    // Launch of two kernels, the first block's latency, the merge and the combination, as measured on an H200
    // (docs/notes/attention.md). Then whichever is longer: reading K and V once for each row tile, or the products at a
    // third of the matrix rate, whose rows are padded to whole tiles.
    constexpr double kFixed = 6.5, kProducts = 0.3;
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    if (geometry.tiles == 0 || device.memoryBytesPerSecond == 0 || device.bf16FlopPerSecond == 0) return kFixed;
    const auto blocks =
        static_cast<double>(geometry.tiles * std::max<std::int64_t>(1, ceilDiv(shape.kvLen, geometry.tileN)));
    const auto pieces = static_cast<double>(geometry.pieces);
    const double perPiece = std::ceil(blocks / pieces);
    const double inFlight = static_cast<double>(geometry.pieces * geometry.stages * geometry.tileN * shape.headDim * 4);
    const double memoryRate = device.memoryBytesPerSecond * std::min(1.0, inFlight / 9e6);
    const double memory = perPiece * pieces * static_cast<double>(4 * geometry.tileN * shape.headDim) / memoryRate;
    const double products = perPiece * pieces *
                            static_cast<double>(4 * geometry.tileN * geometry.rowTile * shape.headDim) /
                            (kProducts * device.bf16FlopPerSecond);
    return kFixed + std::max(memory, products) * 1e6;
  }

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override {
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    BuildRequest request;
    request.templateId = id();
    request.target = device.target;
    request.entries = {"attention_decode_sm90", "attention_decode_sm90_combine"};
    const auto parameter = [&](std::string name, std::int64_t value) {
      request.parameters.emplace_back(std::move(name), fmt::to_string(value));
    };
    parameter("head_dim", shape.headDim);
    parameter("causal", shape.causal);
    parameter("log_sum_exp", shape.logSumExp);
    for (const auto& [name, value] : configuration.entries()) parameter(name, value);
    request.source = parameterPrelude(request.parameters) + sources.text(kSource) +
                     fmt::format(
                         "static_assert(tilewright::kSharedBytes == {} && tilewright::kThreads == {} && "
                         "tilewright::kCombineThreads == {} && tilewright::kSlotFloats == {} && "
                         "sizeof(tilewright::Params) == {}, \"host and device disagree\");\n",
                         geometry.sharedBytes(), geometry.threads, kCombineThreads,
                         geometry.rowTile * (geometry.headDim + 2), sizeof(ParamsArgument));
    request.includes = sources.includesOf(kSource);
    return {std::move(request)};
  }

  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override {
    return Geometry(problem.attention, device, configuration).partialBytes();
  }

  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    const AttentionShape& shape = problem.attention;
    const AttentionOperands& attention = operands.attention;
    const Geometry geometry(shape, device, configuration);
    if (geometry.tiles == 0) return;

    const auto word = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    const auto size = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    const ParamsArgument params{
        .q = attention.q,
        .out = attention.out,
        .lse = attention.lse,
        .kvLen = attention.kvLen,
        .partials = workspace,
        .qBatchStride = attention.qStride.batch,
        .qHeadStride = attention.qStride.head,
        .qRowStride = attention.qStride.row,
        .outBatchStride = attention.outStride.batch,
        .outHeadStride = attention.outStride.head,
        .outRowStride = attention.outStride.row,
        .batch = word(shape.batch),
        .qHeads = word(shape.qHeads),
        .kvHeads = word(shape.kvHeads),
        .qLen = word(shape.qLen),
        .capacity = word(attention.capacity),
        .rowTiles = word(geometry.rowTiles),
        .pieces = word(geometry.pieces),
        .scaleLog2 = attention.scale * 1.4426950408889634f,
    };
    Launch& split = launches.addKernel(0, {size(geometry.pieces), 1, 1}, {size(geometry.threads), 1, 1},
                                       size(geometry.sharedBytes()));
    split.arguments.tensorMap(attentionKeyMap(problem, attention, size(geometry.tileN)));
    split.arguments.tensorMap(attentionValueMap(problem, attention, size(geometry.tileN)));
    split.arguments.value(params);

    const std::int64_t rows = std::min(geometry.rowTile, geometry.packedRows);
    Launch& combine = launches.addKernel(1, {size(geometry.tiles), size(rows), 1}, {kCombineThreads, 1, 1});
    combine.programmaticDependent = true;
    combine.arguments.value(params);
  }
};

}  // namespace

const Template& attentionDecodeSm90() {
  static const AttentionDecodeSm90 kTemplate;
  return kTemplate;
}

}  // namespace tilewright
