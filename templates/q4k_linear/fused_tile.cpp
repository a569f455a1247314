#include "templates/q4k_linear/fused_tile.h"

#include <algorithm>

#include "base/integer.h"

namespace tilewright {
namespace {

// Shared memory on sm_90: the most that a block can have; and what the quantizing block beside it takes, 1 KiB that the
// system keeps and at most 1 KiB of its own.
constexpr std::int64_t kSharedLimit = 232448, kNeighbourBytes = 2048;

/// What the cost model was fitted to on an H200 (docs/notes/q4k_linear.md).
struct Rates {
  double clock;           // of the tensor cores under this load
  double convert = 0;     // issue slots of a scheduler for 64 rows of a super-block
  double ownTable = 1;    // share of that which a warpgroup for the table leaves to the busiest scheduler
  double l2Bytes;         // a cycle and SM
  double block;           // cycles that a super-block takes on top
  double drain = 0;       // and that the end of a scale's k takes, where products and conversion do not overlap
  double exposed = 0;     // share of converting, or of computing, that the other does not hide
  double exposedOne = 0;  // the same with one set of A registers
  double launch;          // microseconds before the first and behind the last product
  double overlap;         // what is left of the shorter of computing and memory traffic
  double finish;          // microseconds of a whole tile's end at 256 tokens
  double cut;             // microseconds of a cut, and bytes a microsecond of what it writes and reads
  double cutBytes;
};

Rates ratesOf(const FusedTile& tile) {
  const bool isE4m3 = tile.arithmetic == FusedArithmetic::kE4m3;
  if (tile.isBf16()) {
    return {.clock = 1.60e9,
            .convert = 780,
            .ownTable = 0.99,
            .l2Bytes = 36,
            .block = 63,
            .exposed = 0.14,
            .exposedOne = 0.35,
            .launch = 8.9,
            .overlap = 0.45,
            .finish = 1.1,
            .cut = 3.7,
            .cutBytes = 80e3};
  }
  if (tile.isExpanded) {
    return {.clock = isE4m3 ? 1.89e9 : 1.81e9,
            .l2Bytes = 57,
            .block = 113,
            .launch = 5.4,
            .overlap = 0.38,
            .finish = 2.1,
            .cut = 3.2,
            .cutBytes = 34e3};
  }
  return {.clock = isE4m3 ? 1.73e9 : 1.90e9,
          .convert = isE4m3 ? 600.0 : 542.0,
          .ownTable = isE4m3 ? 0.91 : 0.955,
          .l2Bytes = 37,
          .block = 70,
          .drain = 240,
          .exposed = 0.17,
          .exposedOne = 0.47,
          .launch = 8.5,
          .overlap = 0.30,
          .finish = 1.1,
          .cut = 2.9,
          .cutBytes = 80e3};
}

}  // namespace

FusedTile::FusedTile(const Configuration& configuration, CommonParameters)
    : arithmetic(static_cast<FusedArithmetic>(configuration["arithmetic"])),
      tokens(configuration["tokens"]),
      warpgroups(configuration["warpgroups"]),
      splitMode(static_cast<SplitMode>(configuration["split"])) {}

FusedTile::FusedTile(const Configuration& configuration) : FusedTile(configuration, CommonParameters{}) {
  scaleK = configuration["scale_k"];
  stepK = configuration["step_k"];
  buffers = configuration["buffers"];
  stagesW = configuration["stages_w"];
  tableWarps = configuration["table_warps"];
}

FusedTile FusedTile::expanded(const Configuration& configuration) {
  FusedTile tile(configuration, CommonParameters{});
  tile.isExpanded = true;
  return tile;
}

std::int64_t FusedTile::sharedBytes(std::int64_t stagesX, std::int64_t outBuffers) const {
  const std::int64_t store = (outTokens() * 128 + 1023) / 1024 * 1024;
  const std::int64_t table = 4 * rows() * (isBf16() ? 16 : 8);
  const std::int64_t scales = promotes() ? tokens * 4 : 0;
  const std::int64_t weights = isExpanded ? stagesX * rows() * 128 : stagesW * (rows() * 144 + table);
  const std::int64_t maskWords = promotes() ? 1 : isExpanded ? 8 : 4;
  const std::int64_t barriers = 8 * ((isExpanded ? 0 : 3 * stagesW) + 2 * stagesX + (isS8() ? 8 * (maskWords + 1) : 0) +
                                     (cluster() > 1 ? 1 + warpgroups : 0));
  return stagesX * (tokens * 128 + scales) + warpgroups * outBuffers * store + weights + barriers + 1024;
}

std::int64_t FusedTile::sharedBytes() const {
  const std::int64_t buffers = outBuffers();
  return sharedBytes(stagesBeside(buffers), buffers);
}

std::int64_t FusedTile::stagesBeside(std::int64_t outBuffers) const {
  std::int64_t stages = 8;
  const std::int64_t limit = kSharedLimit - (spareThreads() > 0 ? kNeighbourBytes : 0);
  while (stages > 1 && sharedBytes(stages, outBuffers) > limit) --stages;
  return stages;
}

std::int64_t FusedTile::outBuffers() const {
  if (tokens <= 16) return 1;
  const std::int64_t stages = stagesBeside(2);
  return stages >= 6 || stages == stagesBeside(1) ? 2 : 1;
}

std::int64_t FusedTile::accumulatorsAndFragments() const {
  if (isExpanded) return tokens / 2;
  return tokens / 2 * (promotes() ? 2 : 1) + buffers * (stepK / 64) * (isBf16() ? 16 : 8);
}

std::int64_t FusedTile::registersWanted() const {
  constexpr std::int64_t kRest = 24;  // addresses, ring positions, words under conversion, factors
  // One product must fit what a block of so many threads is assembled for, whatever setmaxnreg gives it afterwards: its
  // own accumulators, its fragment and addresses; from 640 threads on the second pass of s8 and the exchange of a
  // cluster together take a few more.
  const std::int64_t assembledFor = 65536 / (threads() + spareThreads()) / 8 * 8;
  const std::int64_t product = tokens / 2 + (isS8() && cluster() > 1 && threads() >= 640 ? 34 : 30);
  return std::max(accumulatorsAndFragments() + kRest, registersGiven() + product - assembledFor);
}

std::int64_t FusedTile::registersGiven() const {
  if (spareThreads() > 0) return 168;
  const std::int64_t launch = 65536 / threads() / 8 * 8;
  const std::int64_t others = hasTableWarpgroup() ? 48 + 56 : warpgroups < 4 ? 56 : warpgroups == 4 ? 64 : 72;
  return (threads() / 128 * launch - others) / warpgroups / 8 * 8;
}

double FusedTile::predictMicroseconds(const LinearShape& shape, const DeviceInfo& device) const {
  const int units = std::max(1, device.unitCount);
  const SplitPlan plan = split(shape, units);
  const auto count = [](std::int64_t v) { return static_cast<double>(v); };

  const double weightBytes = isExpanded ? 256 : 144;  // of a row's super-block
  const Rates rates = ratesOf(*this);

  // Cycles of one super-block of a tile: tensor cores, issue slots of a scheduler (one warp of each warpgroup), and the
  // bytes that an SM takes from L2. The largest hides most of the others.
  const double convert = rates.convert * (hasTableWarpgroup() ? rates.ownTable : 1);
  const double tensor = count(warpgroups) * count(tokens) / 2 * (isBf16() ? 16 : 8);
  const double promote = promotes() ? count(tokens) / 2 * 2.5 * 256 / count(scaleK) : 0;
  const double issue = count(warpgroups) * (convert + promote * 1.05);
  const double bytes = (count(rows()) * weightBytes + count(tokens) * (isBf16() ? 512 : 256)) / rates.l2Bytes;
  const double longest = std::max({tensor, issue, bytes});
  const double exposed = buffers == 1 ? rates.exposedOne : rates.exposed;
  const double cycles = longest + exposed * (tensor + issue - std::min(longest, tensor + issue)) + rates.block +
                        (promotes() ? rates.drain * 256 / count(scaleK) : 0);
  const double compute = count(plan.longestBlock()) * cycles / rates.clock * 1e6;

  // Device memory: weights, activations and out once, and the dirty lines that a caller before left in L2.
  const double memory =
      (count(shape.n) * count(shape.k) / 256 * weightBytes + count(shape.m) * count(shape.k + shape.n) * 2) /
      std::max(1.0, 0.85 * device.memoryBytesPerSecond) * 1e6;

  // A cut: write a part, count, read the others' back. Shares cut twice a block, and their blocks do not read the same
  // weights and activations at the same time.
  const double cuts = plan.slots == 0 ? 0 : splitMode == SplitMode::kShares ? 3 : 1;
  const double parts = count(plan.slots) / 2 / count(std::max(1, plan.splitTiles));
  const double split = cuts * (rates.cut + count(slotBytes()) / rates.cutBytes) +
                       (cuts > 0 ? std::max(0.0, parts - 2) * count(slotBytes()) / 110e3 : 0);
  const double quantize = isBf16() ? 0 : 1.5 + count(shape.m) * count(shape.k) * 4 / 3.5e12 * 1e6;
  // In a cluster: wait for the others, the longer the more whole tiles came before, and send them all but one's own
  // tokens.
  const double exchange = plan.schedule.cluster == 0 ? 0
                                                     : (plan.schedule.wholeTiles > 0 ? 3.0 : 0.6) +
                                                           count(slotBytes()) * (1 - 1 / count(cluster())) / 60e3;
  const std::int64_t rounds = ceilDiv(plan.schedule.wholeTiles, std::max(1, plan.grid)) + (plan.splitTiles > 0 ? 1 : 0);
  const double finish = rates.finish * count(rounds) * count(tokens) / 256;
  const double expandedBytes = count(shape.n) * count(shape.k) / 256 * (144 + 256);
  const double expand =
      isExpanded && !shape.prepared ? 10.0 + expandedBytes / std::max(1.0, 0.6 * device.memoryBytesPerSecond) * 1e6 : 0;
  return rates.launch + expand + exchange + std::max(compute, memory) + rates.overlap * std::min(compute, memory) +
         finish + split + quantize;
}

}  // namespace tilewright
