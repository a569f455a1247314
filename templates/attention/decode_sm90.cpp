// Host half of attention.decode_sm90: its space, rules, resources, cost model and launches. The kernels are explained
// in decode_sm90.cu, whose derived constants are asserted to equal the ones here.
#include "templates/attention/decode_sm90.h"

#include <algorithm>
#include <cmath>

#include "base/integer.h"
#include "templates/attention/tensor_maps.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kSource = "templates/attention/decode_sm90.cu";
constexpr std::string_view kCombineSource = "templates/attention/decode_sm90_combine.cu";
constexpr std::int64_t kMaximumRows = 16;
constexpr std::int64_t kUsefulBytes = 128 << 10;  // in flight per SM; more gained nothing
constexpr std::uint32_t kCombineThreads = 256;

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
  std::int64_t headDim, rowTile, tileN, stages, warps, blocksPerSm, cluster;
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
        cluster(configuration["cluster"]),
        rowWarps(rowTile / 16),
        keyWarps(warps / rowWarps),
        threads((warps + 1) * 32),
        packedRows(shape.qLen * (shape.qHeads / shape.kvHeads)),
        rowTiles(ceilDiv(packedRows, rowTile)),
        tiles(shape.batch * shape.kvHeads * rowTiles),
        pieces(cluster > 1 ? tiles * cluster : device.unitCount * blocksPerSm) {}

  /// The kernel's Shared: K and V stages; the key warps' O, a maximum and a sum per row, and those of all; barriers;
  /// and alignment.
  std::int64_t sharedBytes() const {
    const std::int64_t merge = keyWarps * rowTile * (headDim + 8) * 4 + (2 * keyWarps + 2) * rowTile * 4;
    return roundUp(stages * stageBytes() + merge + stages * 4 * 8, 1024) + 1024;
  }
  std::int64_t stageBytes() const { return 2 * tileN * headDim * 2; }

  /// Registers of a computing thread: O, Q, S and P, and what addresses and row statistics were seen to take.
  std::int64_t registersNeeded() const {
    return headDim / 2 + headDim / 4 + tileN / keyWarps / 2 + tileN / keyWarps / 4 + 50;
  }
  /// An SM has four schedulers with 512 registers per lane each.
  std::int64_t registersGiven() const {
    return std::min<std::int64_t>(255, 512 / ceilDiv((warps + 1) * blocksPerSm, 4) / 8 * 8);
  }

  /// Two slots per CTA: O of every packed row, its maximum and its sum.
  std::int64_t partialBytes() const { return cluster > 1 ? 0 : roundUp(2 * pieces * rowTile * (headDim + 2) * 4, 256); }
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
            {"cluster",
             "CTAs that share a tile; 1: tiles are cut freely over all CTAs, and combined by a second kernel",
             {1, 2, 4, 8, 16}},
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
    // One tile per KV head where it fits; the cost model chooses how its parts are combined.
    const AttentionShape& shape = problem.attention;
    const std::int64_t rows = shape.qLen * (shape.qHeads / shape.kvHeads);
    const std::int64_t rowTile = rows <= 16 ? 16 : rows <= 32 || shape.headDim == 256 ? 32 : 64;
    // Few sums leave registers for more keys a block, many for fewer.
    const bool many = shape.headDim == 256 ? rowTile == 32 : shape.headDim == 128 && rowTile == 64;
    const std::int64_t usualTileN = many ? 32 : shape.headDim == 64 && rowTile == 16 ? 128 : 64;
    Configuration best;
    double bestTime = 0;
    for (const std::int64_t cluster : {1, 2, 4, 8}) {
      // A block costs its barriers and its softmax step: 0.17 us on an H200. Larger ones where a CTA still has two.
      constexpr std::int64_t kLargeTileN = 128;
      const bool isLong =
          rowTile == 16 && cluster > 1 && shape.headDim == 128 && shape.kvLen >= 2 * cluster * kLargeTileN;
      const std::int64_t tileN = isLong ? kLargeTileN : usualTileN;
      Configuration candidate({{"row_tile", rowTile},
                               {"tile_n", tileN},
                               {"stages", 8},
                               {"warps", rowTile == 64 ? 8 : 4},
                               {"blocks_per_sm", 1},
                               {"cluster", cluster},
                               {"rescale_threshold", 8}});
      for (const std::int64_t stages : {8, 6, 4, 3, 2}) {
        candidate.set("stages", stages);
        const Geometry geometry(shape, device, candidate);
        const bool enough = stages * geometry.stageBytes() <= kUsefulBytes;
        if (enough && !refusesConfiguration(problem, device, candidate)) break;
      }
      const double time = predictMicroseconds(problem, device, candidate);
      if (best.empty() || time < bestTime) best = std::move(candidate), bestTime = time;
    }
    return best;
  }

  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    // Launch, the first block's latency and the merge of 16 rows, a second kernel that adds 16 rows, both for each
    // further row, and a wave of CTAs after the first, as measured on an H200 (docs/notes/attention.md). Then whichever
    // is longest: reading K and V once for each row tile; reading the blocks from shared memory, by every row warp,
    // where rows of kChunks lines share banks; or the products, whose rows are padded to whole tiles.
    constexpr double kLaunch = 9, kCombine = 3, kMergeRow = 0.1, kWave = 1.5;
    constexpr double kMemory = 0.83, kLatency = 1.79e-6;                     // of the memory's rate; seconds
    constexpr double kSharedBytesPerSecond = 128 * 1.7e9, kProducts = 0.22;  // of an SM; of the matrix rate
    // SMs that clusters can use at once: partitions of the device are no multiples of a cluster.
    constexpr double kClusterRoom = 0.85;
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    const double fixed =
        kLaunch + (geometry.cluster > 1 ? 0 : kCombine) + kMergeRow * static_cast<double>(geometry.rowTile - 16);
    if (geometry.tiles == 0 || device.memoryBytesPerSecond == 0 || device.bf16FlopPerSecond == 0) return fixed;
    const double slots =
        static_cast<double>(device.unitCount * geometry.blocksPerSm) * (geometry.cluster > 1 ? kClusterRoom : 1);
    const auto pieces = static_cast<double>(geometry.pieces);
    const double resident = std::min(pieces, std::max(slots, static_cast<double>(geometry.cluster)));
    const std::int64_t blocks = std::max<std::int64_t>(1, ceilDiv(shape.kvLen, geometry.tileN));
    const std::int64_t perPiece =
        geometry.cluster > 1 ? ceilDiv(blocks, geometry.cluster) : ceilDiv(blocks * geometry.tiles, geometry.pieces);
    const double waves = std::ceil(pieces / resident), steps = static_cast<double>(perPiece) * waves * resident;
    const auto stageBytes = static_cast<double>(geometry.stageBytes());
    const double inFlight = resident * static_cast<double>(geometry.stages) * stageBytes;
    const double rate =
        kMemory * device.memoryBytesPerSecond * std::min(1.0, inFlight / (device.memoryBytesPerSecond * kLatency));
    const double bytes = steps * stageBytes, busy = std::min(resident, static_cast<double>(device.unitCount));
    const double shared =
        bytes / busy * static_cast<double>(shape.headDim / 64 * geometry.rowWarps) / kSharedBytesPerSecond;
    const double products = bytes * static_cast<double>(geometry.rowTile) / (kProducts * device.bf16FlopPerSecond) *
                            (device.unitCount / busy);
    return fixed + kWave * (waves - 1) + std::max({bytes / rate, shared, products}) * 1e6;
  }

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override {
    const AttentionShape& shape = problem.attention;
    const Geometry geometry(shape, device, configuration);
    const auto request = [&](std::string_view source, const char* entry, std::string assertion) {
      BuildRequest request;
      request.templateId = id();
      request.target = device.target;
      request.entries = {entry};
      const auto parameter = [&](std::string name, std::int64_t value) {
        request.parameters.emplace_back(std::move(name), fmt::to_string(value));
      };
      parameter("head_dim", shape.headDim);
      parameter("causal", shape.causal);
      parameter("log_sum_exp", shape.logSumExp);
      for (const auto& [name, value] : configuration.entries()) parameter(name, value);
      request.source = parameterPrelude(request.parameters) + sources.text(source) +
                       fmt::format(
                           "static_assert({} && tilewright::kSlotFloats == {} && sizeof(tilewright::Params) == {}, "
                           "\"host and device disagree\");\n",
                           assertion, geometry.rowTile * (geometry.headDim + 2), sizeof(ParamsArgument));
      request.includes = sources.includesOf(source);
      return request;
    };
    std::vector<BuildRequest> requests;
    requests.push_back(request(kSource, "attention_decode_sm90",
                               fmt::format("tilewright::kSharedBytes == {} && tilewright::kThreads == {}",
                                           geometry.sharedBytes(), geometry.threads)));
    if (geometry.cluster == 1) {
      requests.push_back(request(kCombineSource, "attention_decode_sm90_combine",
                                 fmt::format("tilewright::kCombineThreads == {}", kCombineThreads)));
    }
    return requests;
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
    split.arguments.tensorMap(byWholeRows(attentionKeyMap(problem, attention, size(geometry.tileN))));
    split.arguments.tensorMap(byWholeRows(attentionValueMap(problem, attention, size(geometry.tileN))));
    split.arguments.value(params);

    if (geometry.cluster > 1) {
      split.cluster.x = size(geometry.cluster);
      return;
    }
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
