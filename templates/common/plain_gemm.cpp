#include "templates/common/plain_gemm.h"

#include <algorithm>
#include <cmath>

#include "templates/sources.h"

namespace tilewright {
namespace {

// What the kernel's PlainGemmShape derives (plain_gemm.cuh).
constexpr std::int64_t kTileK = 64;
constexpr std::int64_t kPitch = kTileK + 8;

struct Shape {
  std::int64_t tileM = 0, tileN = 0, warps = 0;

  explicit Shape(const Configuration& configuration)
      : tileM(configuration["tile_m"]), tileN(configuration["tile_n"]), warps(configuration["warps"]) {}

  std::int64_t warpsM() const { return tileM >= 64 ? 2 : 1; }
  std::int64_t warpsN() const { return warps / warpsM(); }
  /// FP32 accumulators of a thread.
  std::int64_t accumulators() const { return tileM * tileN / (warps * 32); }
  std::int64_t sharedBytes() const { return (tileM + tileN) * kPitch * 2; }
  std::int64_t tiles(const LinearShape& problem) const {
    return ((problem.m + tileM - 1) / tileM) * ((problem.n + tileN - 1) / tileN);
  }
};

/// Whether loads may take 16 bytes at once: rows of BF16 weights have no gaps, so k decides too.
bool isAligned(const Problem& problem) {
  return problem.alignment == Alignment::k16 && problem.linear.k % 8 == 0;
}

}  // namespace

std::optional<Refusal> PlainGemmTemplate::refuses(const Problem& problem, const DeviceInfo& device) const {
  if (auto refusal = refusesOperation(*this, problem)) return refusal;
  if (device.kind != DeviceKind::kCuda || device.computeMajor * 10 + device.computeMinor < 75) {
    return Refusal{"target", fmt::format("the target is {}, must be sm_75 or newer", device.target)};
  }
  return std::nullopt;
}

std::vector<Parameter> PlainGemmTemplate::parameters(const Problem& problem, const DeviceInfo& device) const {
  return {{"tile_m", "rows of x that a block computes at once", {64, 16, 32, 128}},
          {"tile_n", "rows of W that a block computes at once", {64, 128}},
          {"warps", "warps of a block", {4, 8}}};
}

std::optional<Refusal> PlainGemmTemplate::refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                               const Configuration& configuration) const {
  if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
  const Shape shape(configuration);
  if (shape.tileN % (16 * shape.warpsN()) != 0) {
    return Refusal{"warp_columns", fmt::format("tile_n is {}, must be a multiple of 16 for each of {} columns of warps",
                                               shape.tileN, shape.warpsN())};
  }
  if (shape.accumulators() > 64) {
    return Refusal{"registers", fmt::format("{} accumulators per thread, must be at most 64", shape.accumulators())};
  }
  return std::nullopt;
}

Configuration PlainGemmTemplate::defaultConfiguration(const Problem& problem, const DeviceInfo& device) const {
  // The lowest tile that holds few rows; larger tiles once they fill the device twice.
  const LinearShape& shape = problem.linear;
  Configuration configuration({{"tile_m", 64}, {"tile_n", 64}, {"warps", 4}});
  if (shape.m <= 32) {
    configuration.set("tile_m", shape.m <= 16 ? 16 : 32);
  } else {
    const Configuration large({{"tile_m", 128}, {"tile_n", 128}, {"warps", 8}});
    if (Shape(large).tiles(shape) >= 2 * std::max(1, device.unitCount)) configuration = large;
  }
  return configuration;
}

double PlainGemmTemplate::predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const {
  // Without asynchronous copies a block reaches about a third of the tensor cores and of the memory.
  constexpr double kLaunchMicroseconds = 4, kShare = 0.33;
  const Shape shape(configuration);
  const LinearShape& linear = problem.linear;
  const auto tiles = static_cast<double>(std::max<std::int64_t>(1, shape.tiles(linear)));
  const double units = std::max(1, device.unitCount);
  const double waves = std::ceil(tiles / (2 * units)) * 2 * units / tiles;
  const double tileFlops = 2.0 * static_cast<double>(shape.tileM * shape.tileN) * static_cast<double>(linear.k);
  const double compute = tiles * waves * tileFlops / std::max(1.0, device.bf16FlopPerSecond);
  const double memory = bytes(problem) * waves / std::max(1.0, device.memoryBytesPerSecond);
  return kLaunchMicroseconds + std::max(compute, memory) / kShare * 1e6;
}

std::vector<BuildRequest> PlainGemmTemplate::buildRequests(const Problem& problem, const DeviceInfo& device,
                                                           const Configuration& configuration,
                                                           const SourceCatalog& sources) const {
  BuildRequest request;
  request.templateId = id();
  request.target = device.target;
  request.entries = {std::string(entry())};
  for (const auto& [name, value] : configuration.entries())
    request.parameters.emplace_back(name, fmt::to_string(value));
  request.parameters.emplace_back("aligned", isAligned(problem) ? "1" : "0");
  const Shape shape(configuration);
  request.source = parameterPrelude(request.parameters) + sources.text(sourceFile()) +
                   fmt::format(
                       "static_assert((Shape::kTileM + Shape::kTileN) * Shape::kPitch * 2 == {} && "
                       "Shape::kThreads == {}, \"host and device disagree\");\n",
                       shape.sharedBytes(), shape.warps * 32);
  request.includes = sources.includesOf(sourceFile());
  return {std::move(request)};
}

void PlainGemmTemplate::encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                               const Operands& operands, void* workspace, const void* prepared,
                               LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  const Shape tile(configuration);
  if (shape.m == 0) return;

  // Blocks walk the tiles with a stride of the grid, so its size may be cut to what a grid can have.
  const auto blocks = static_cast<std::uint32_t>(std::min<std::int64_t>(tile.tiles(shape), 1 << 30));
  KernelArguments& arguments =
      launches.addKernel(0, {blocks, 1, 1}, {static_cast<std::uint32_t>(tile.warps * 32), 1, 1}).arguments;
  arguments.pointer(linear.x), arguments.value(linear.xStride);
  arguments.pointer(linear.w), arguments.pointer(shape.bias ? linear.bias : nullptr);
  arguments.pointer(linear.out), arguments.value(linear.outStride);
  arguments.value(shape.m), arguments.value(shape.n), arguments.value(shape.k);
}

}  // namespace tilewright
