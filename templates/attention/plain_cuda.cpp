#include "templates/attention/plain_cuda.h"

#include <algorithm>
#include <cmath>

#include "templates/sources.h"

namespace tilewright {
namespace {

constexpr std::string_view kSource = "templates/attention/plain_cuda.cu";

/// What the kernel derives from its parameters.
struct Tile {
  std::int64_t rows, keys, threads, sharedBytes;

  Tile(const AttentionShape& shape, const Configuration& configuration)
      : rows(16 * configuration["warps"]), keys(configuration["tile_kv"]), threads(32 * configuration["warps"]) {
    const std::int64_t pitch = (shape.headDim + 15) / 16 * 16 + 8;
    sharedBytes = (rows + 2 * keys) * pitch * 2;
  }

  std::int64_t tiles(const AttentionShape& shape) const {
    return shape.batch * shape.qHeads * ((shape.qLen + rows - 1) / rows);
  }
};

/// The kernel's Tensor and Sizes parameters.
struct TensorArgument {
  const void* base;
  std::int64_t batch, head, row, column;

  TensorArgument(const void* address, const Strides& strides)
      : base(address), batch(strides.batch), head(strides.head), row(strides.row), column(strides.column) {}
};

struct SizesArgument {
  std::int64_t batch, qHeads, kvHeads, qLen, capacity;
};

class AttentionPlainCuda final : public Template {
 public:
  std::string_view id() const override { return "attention.plain_cuda"; }
  Operation operation() const override { return Operation::kAttention; }
  std::string_view summary() const override {
    return "any GPU, any layout: shared-memory tiles, mma.sync, online softmax";
  }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override {
    if (auto refusal = refusesOperation(*this, problem)) return refusal;
    if (device.kind != DeviceKind::kCuda || device.computeMajor * 10 + device.computeMinor < 75) {
      return Refusal{"target", fmt::format("the target is {}, must be sm_75 or newer", device.target)};
    }
    return std::nullopt;
  }

  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const override {
    return {{"warps", "warps of a block, 16 query rows each", {4, 1, 2, 8}},
            {"tile_kv", "keys per step", {32, 16, 64}}};
  }

  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override {
    if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
    const Tile tile(problem.attention, configuration);
    if (tile.sharedBytes > device.sharedBytesPerBlock) {
      return Refusal{"shared_memory", fmt::format("{} bytes of shared memory, must be at most {} on {}",
                                                  tile.sharedBytes, device.sharedBytesPerBlock, device.target)};
    }
    return std::nullopt;
  }

  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const override {
    // As few warps as hold the rows; 16 keys a step fit the smallest shared memory at every head dim.
    const AttentionShape& shape = problem.attention;
    Configuration configuration({{"warps", shape.qLen <= 16 ? 1 : shape.qLen <= 32 ? 2 : 4}, {"tile_kv", 32}});
    if (refusesConfiguration(problem, device, configuration)) configuration.set("tile_kv", 16);
    return configuration;
  }

  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    // A block reads all its keys and overlaps nothing: about a fifth of the tensor cores, and of the memory when few
    // blocks share a unit.
    constexpr double kLaunchMicroseconds = 4, kShare = 0.2;
    const AttentionShape& shape = problem.attention;
    const Tile tile(shape, configuration);
    const auto tiles = static_cast<double>(std::max<std::int64_t>(1, tile.tiles(shape)));
    const double units = std::max(1, device.unitCount);
    const double waves = std::ceil(tiles / units) * units / tiles;
    const double padding = static_cast<double>((shape.qLen + tile.rows - 1) / tile.rows * tile.rows) /
                           static_cast<double>(std::max<std::int64_t>(1, shape.qLen));
    const double compute = flops(problem) * padding * waves / std::max(1.0, device.bf16FlopPerSecond);
    const double memory = bytes(problem) * waves / std::max(1.0, device.memoryBytesPerSecond);
    return kLaunchMicroseconds + std::max(compute, memory) / kShare * 1e6;
  }

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override {
    const AttentionShape& shape = problem.attention;
    const Tile tile(shape, configuration);
    BuildRequest request;
    request.templateId = id();
    request.target = device.target;
    request.entries = {"attentionPlain"};
    for (const auto& [name, value] : configuration.entries()) {
      request.parameters.emplace_back(name, fmt::to_string(value));
    }
    request.parameters.emplace_back("head_dim", fmt::to_string(shape.headDim));
    request.parameters.emplace_back("causal", shape.causal ? "1" : "0");
    request.parameters.emplace_back("aligned", problem.alignment == Alignment::k16 ? "1" : "0");
    request.source = parameterPrelude(request.parameters) + sources.text(kSource) +
                     fmt::format(
                         "static_assert(kSharedBytes == {} && kThreads == {} && kRows == {}, "
                         "\"host and device disagree\");\n",
                         tile.sharedBytes, tile.threads, tile.rows);
    request.includes = sources.includesOf(kSource);
    return {std::move(request)};
  }

  std::int64_t workspaceBytes(const Problem&, const DeviceInfo&, const Configuration&) const override { return 0; }

  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    const AttentionShape& shape = problem.attention;
    const AttentionOperands& attention = operands.attention;
    const Tile tile(shape, configuration);
    const std::int64_t tiles = tile.tiles(shape);
    if (tiles == 0) return;

    // Blocks walk the tiles with a stride of the grid, so its size may be cut to what a grid can have.
    const auto blocks = static_cast<std::uint32_t>(std::min<std::int64_t>(tiles, 1 << 30));
    KernelArguments& arguments = launches
                                     .addKernel(0, {blocks, 1, 1}, {static_cast<std::uint32_t>(tile.threads), 1, 1},
                                                static_cast<std::uint32_t>(tile.sharedBytes))
                                     .arguments;
    arguments.value(TensorArgument(attention.q, attention.qStride));
    arguments.value(TensorArgument(attention.k, attention.kStride));
    arguments.value(TensorArgument(attention.v, attention.vStride));
    arguments.value(TensorArgument(attention.out, attention.outStride));
    arguments.pointer(shape.logSumExp ? attention.lse : nullptr);
    arguments.pointer(attention.kvLen);
    arguments.value(SizesArgument{shape.batch, shape.qHeads, shape.kvHeads, shape.qLen, attention.capacity});
    arguments.value(attention.scale);
  }
};

}  // namespace

const Template& attentionPlainCuda() {
  static const AttentionPlainCuda kTemplate;
  return kTemplate;
}

}  // namespace tilewright
