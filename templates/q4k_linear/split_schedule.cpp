#include "templates/q4k_linear/split_schedule.h"

#include <algorithm>

#include "base/integer.h"

namespace tilewright {
namespace {

/// Whole rounds of tiles first; then each cluster takes at most one of those left. If there are more, whole tiles are
/// as good. SMs come in twos, which clusters of two fill: all run at once.
void planClusters(SplitPlan& plan, int units, std::int64_t cluster) {
  SplitSchedule& s = plan.schedule;
  const std::int64_t clusters = units / cluster, grid = clusters * cluster;
  const std::int64_t rest = grid == 0 ? 0 : s.tiles % grid;
  if (rest == 0 || rest > clusters || s.blocks < cluster) return;
  s.wholeTiles = static_cast<std::int32_t>(s.tiles - rest);
  s.cluster = static_cast<std::int32_t>(cluster);
  plan.grid = static_cast<std::int32_t>(s.wholeTiles > 0 ? grid : rest * cluster);
  plan.splitTiles = static_cast<std::int32_t>(rest);
}

}  // namespace

std::int64_t clusterBlocks(SplitMode mode) {
  return mode == SplitMode::kPairs ? 2 : 1;
}

std::int64_t SplitPlan::longestBlock() const {
  if (grid == 0) return 0;
  if (schedule.cluster > 0) {
    return ceilDiv(schedule.wholeTiles, grid) * schedule.blocks + ceilDiv(schedule.blocks, schedule.cluster);
  }
  return ceilDiv(schedule.wholeTiles, grid) * schedule.blocks + schedule.chunk;
}

SplitPlan planSplit(std::int64_t n, std::int64_t k, std::int64_t m, TileShape tile, int units, SplitMode mode) {
  const std::int64_t tokenTiles = ceilDiv(m, tile.tokens), tiles = ceilDiv(n, tile.rows) * tokenTiles;
  const std::int64_t blocks = k / 256, rest = tiles % units;
  SplitPlan plan;
  plan.schedule.tiles = static_cast<std::int32_t>(tiles);
  plan.schedule.tokenTiles = static_cast<std::int32_t>(tokenTiles);
  plan.schedule.blocks = static_cast<std::int32_t>(blocks);

  // How many tiles are split, how long the chunks are, and how many there are.
  std::int64_t splitTiles = 0, chunk = 0, slices = 0, chunks = 0;
  if (mode == SplitMode::kShares && rest > 0) {
    splitTiles = tiles < 2 * units ? tiles : rest + units;
    chunk = ceilDiv(splitTiles * blocks, units);
    chunks = ceilDiv(splitTiles * blocks, chunk);
  } else if (mode == SplitMode::kSlices && rest > 0 && units / rest > 1 && blocks > 1) {
    splitTiles = rest;
    chunk = ceilDiv(blocks, std::min(units / rest, blocks));
    slices = ceilDiv(blocks, chunk);
    chunks = splitTiles * slices;
  }
  const std::int64_t wholeTiles = tiles - splitTiles;
  plan.schedule.wholeTiles = static_cast<std::int32_t>(wholeTiles);
  plan.schedule.chunk = static_cast<std::int32_t>(chunk);
  plan.schedule.slices = static_cast<std::int32_t>(slices);
  plan.grid = static_cast<std::int32_t>(wholeTiles >= units ? units : std::max(wholeTiles, chunks));
  plan.splitTiles = static_cast<std::int32_t>(splitTiles);
  plan.slots = static_cast<std::int32_t>(2 * chunks);
  if (clusterBlocks(mode) > 1) planClusters(plan, units, clusterBlocks(mode));
  return plan;
}

}  // namespace tilewright
