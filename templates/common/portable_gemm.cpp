#include "templates/common/portable_gemm.h"

#include <algorithm>
#include <cmath>

#include "templates/common/cpu_target.h"

namespace tilewright {
namespace {

/// Products of at most this many rows run along k (compiler/tile/lower_cpu/dot.cpp).
constexpr std::int64_t kMostRowsAlongK = 8;

struct Shape {
  std::int64_t tileM, tileN, tileK, microRows, microVectors;

  explicit Shape(const Configuration& configuration)
      : tileM(configuration["tile_m"]),
        tileN(configuration["tile_n"]),
        tileK(configuration["tile_k"]),
        microRows(configuration["micro_rows"]),
        microVectors(configuration["micro_vectors"]) {}

  bool isAlongK() const { return tileM <= kMostRowsAlongK; }
  std::int64_t panelColumns(const CpuTarget& target) const { return std::min(tileN, microVectors * target.lanes); }
  /// Accumulators, x as f32, copies of x and W at the edges, and the packed panel.
  std::int64_t stackBytes(const CpuTarget& target) const {
    return 4 * tileM * tileN + 6 * tileM * tileK + 2 * tileN * tileK + 4 * tileK * panelColumns(target);
  }
  std::int64_t programs(const LinearShape& problem) const {
    return ceilDivide(problem.m, tileM) * ceilDivide(problem.n, tileN);
  }
};

}  // namespace

std::optional<Refusal> PortableGemmTemplate::refuses(const Problem& problem, const DeviceInfo& device) const {
  if (auto refusal = refusesOperation(*this, problem)) return refusal;
  if (auto refusal = refusesTarget(device)) return refusal;
  const Shape shape(defaultConfiguration(problem, device));
  if (ceilDivide(problem.linear.m, shape.tileM) > kMostPrograms ||
      ceilDivide(problem.linear.n, shape.tileN) > kMostPrograms) {
    return Refusal{"grid", fmt::format("m is {} and n is {}, must be at most 2^32 - 1 blocks of {} and {}",
                                       problem.linear.m, problem.linear.n, shape.tileM, shape.tileN)};
  }
  return std::nullopt;
}

std::vector<Parameter> PortableGemmTemplate::parameters(const Problem& problem, const DeviceInfo& device) const {
  return {{"tile_m", "rows of x that a program computes at once", {64, 1, 2, 4, 8, 16, 32, 128, 256}},
          {"tile_n", "rows of W that a program computes at once", {64, 32, 128, 256}},
          {"tile_k", "columns of x and W in one step", tileKValues()},
          {"micro_rows", "rows of the register micro-tile", {8, 4, 6, 12}},
          {"micro_vectors", "vectors in a row of the register micro-tile", {2, 1, 4}},
          {"unroll", "steps of k in one iteration of the micro-tile's loop", {1, 2}}};
}

std::optional<Refusal> PortableGemmTemplate::refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                                  const Configuration& configuration) const {
  if (auto refusal = refusesValues(parameters(problem, device), configuration)) return refusal;
  const Shape shape(configuration);
  const CpuTarget target = *cpuTargetOf(device.target);
  const LinearShape& linear = problem.linear;
  if (shape.tileM > 1 && shape.tileM / 2 >= linear.m) {
    return Refusal{"tile_m",
                   fmt::format("tile_m is {}, must be less than twice m, which is {}", shape.tileM, linear.m)};
  }
  if (shape.isAlongK()) {
    // Such products have no micro-tile: one configuration stands for all.
    if (shape.microRows != 4 || shape.microVectors != 1 || configuration["unroll"] != 1) {
      return Refusal{"no_micro_tile", fmt::format("tile_m is {}: without a micro-tile, micro_rows must be 4, "
                                                  "micro_vectors and unroll 1",
                                                  shape.tileM)};
    }
  } else if (shape.microRows > shape.tileM) {
    return Refusal{"micro_rows",
                   fmt::format("micro_rows is {}, must be at most tile_m, which is {}", shape.microRows, shape.tileM)};
  }
  if (shape.microVectors * target.lanes > shape.tileN) {
    return Refusal{"micro_vectors", fmt::format("micro_vectors is {}, must fit tile_n, which is {}, with {} lanes",
                                                shape.microVectors, shape.tileN, target.lanes)};
  }
  const std::int64_t registers = shape.microRows * shape.microVectors + shape.microVectors + 1;
  if (registers > target.registers) {
    return Refusal{"registers", fmt::format("the micro-tile needs {} vector registers, must be at most {} on {}",
                                            registers, target.registers, device.target)};
  }
  if (shape.stackBytes(target) > kMostStackBytes) {
    return Refusal{"stack", fmt::format("{} bytes of tile buffers, must be at most {}", shape.stackBytes(target),
                                        kMostStackBytes)};
  }
  if (ceilDivide(linear.m, shape.tileM) > kMostPrograms || ceilDivide(linear.n, shape.tileN) > kMostPrograms) {
    return Refusal{"grid",
                   fmt::format("tile_m is {} and tile_n is {}, must cut m = {} and n = {} into at most 2^32 - 1",
                               shape.tileM, shape.tileN, linear.m, linear.n)};
  }
  return std::nullopt;
}

Configuration PortableGemmTemplate::defaultConfiguration(const Problem& problem, const DeviceInfo& device) const {
  // The lowest tile that holds few rows; high ones amortize the packing of W. Narrow ones give every thread a program.
  const std::int64_t m = problem.linear.m;
  std::int64_t tileM = 1;
  while (tileM < m && tileM < 128) tileM *= 2;
  const bool alongK = tileM <= kMostRowsAlongK;
  const auto target = cpuTargetOf(device.target).value_or(CpuTarget{4, 16});
  Configuration configuration({{"tile_m", tileM},
                               {"tile_n", 64},
                               {"tile_k", alongK ? tileKValues().back() : tileKValues().front()},
                               {"micro_rows", alongK                   ? 4
                                              : target.registers == 32 ? std::min<std::int64_t>(tileM, 8)
                                                                       : 6},
                               {"micro_vectors", alongK ? 1 : 2},
                               {"unroll", 1}});
  const Shape shape(configuration);
  if (shape.programs(problem.linear) < 2 * device.unitCount) configuration.set("tile_n", 32);
  return configuration;
}

double PortableGemmTemplate::predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                                                 const Configuration& configuration) const {
  // Vector instructions of one program, one a cycle, at the rate that the nominal FLOP/s imply.
  const Shape shape(configuration);
  const CpuTarget target = *cpuTargetOf(device.target);
  const LinearShape& linear = problem.linear;
  const auto tileM = static_cast<double>(shape.tileM), tileN = static_cast<double>(shape.tileN);
  const auto tileK = static_cast<double>(shape.tileK);
  const double steps = static_cast<double>(ceilDivide(linear.k, shape.tileK));
  const double weights = tileN * tileK / target.lanes, products = weights * tileM;
  double perStep = 0;
  if (shape.isAlongK()) {
    constexpr double kReduction = 10;  // instructions that add up the lanes of one output
    perStep = products + weights * instructionsPerWeightVector() + kReduction * tileM * tileN;
  } else {
    // Two loads a cycle feed the FMAs; packing transposes; x is widened; the accumulators come and go.
    const auto rows = static_cast<double>(shape.microRows), vectors = static_cast<double>(shape.microVectors);
    const double feed = std::max(1.0, (rows + vectors) / (rows * vectors) * 1.5);
    constexpr double kTranspose = 5, kWiden = 4;
    perStep = products * feed + weights * (instructionsPerWeightVector() + kTranspose) +
              kWiden * tileM * tileK / target.lanes + 2 * tileM * tileN / target.lanes;
    // A panel beyond half of a first-level cache of 32 KiB is read from the second.
    if (shape.panelColumns(target) * shape.tileK * 4 > (16 << 10)) perStep += 0.1 * products;
  }
  const double units = std::max(1, device.unitCount);
  const auto programs = static_cast<double>(std::max<std::int64_t>(1, shape.programs(linear)));
  const double rounds = std::ceil(programs / units);
  const double rate = std::max(1.0, device.bf16FlopPerSecond) / units / target.flopsPerInstruction();
  const double compute = rounds * steps * perStep / rate;
  const double memory = bytes(problem) / std::max(1.0, device.memoryBytesPerSecond);
  constexpr double kLaunchMicroseconds = 2;
  return kLaunchMicroseconds + std::max(compute, memory) * 1e6;
}

std::vector<BuildRequest> PortableGemmTemplate::buildRequests(const Problem& problem, const DeviceInfo& device,
                                                              const Configuration& configuration,
                                                              const SourceCatalog&) const {
  BuildRequest request;
  request.kind = SourceKind::kTile;
  request.templateId = id();
  request.source = id();
  request.target = device.target;
  request.entries = {std::string(entry())};
  for (const auto& [name, value] : configuration.entries()) {
    request.parameters.emplace_back(name, fmt::to_string(value));
  }
  request.parameters.emplace_back("bias", problem.linear.bias ? "1" : "0");
  return {std::move(request)};
}

void PortableGemmTemplate::encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                                  const Operands& operands, void* workspace, const void* prepared,
                                  LaunchList& launches) const {
  const LinearShape& shape = problem.linear;
  const LinearOperands& linear = operands.linear;
  if (shape.m == 0) return;

  // Blocks of rows come first: neighbours in the grid share the rows of W.
  const Shape tile(configuration);
  const Dim3 grid{static_cast<std::uint32_t>(ceilDivide(shape.m, tile.tileM)),
                  static_cast<std::uint32_t>(ceilDivide(shape.n, tile.tileN)), 1};
  KernelArguments& arguments = launches.addKernel(0, grid, {}).arguments;
  arguments.pointer(linear.x), arguments.pointer(linear.w);
  arguments.pointer(shape.bias ? linear.bias : nullptr), arguments.pointer(linear.out);
  arguments.value(shape.m), arguments.value(shape.n), arguments.value(shape.k);
  arguments.value(linear.xStride), arguments.value(linear.outStride);
}

}  // namespace tilewright
