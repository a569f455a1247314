#include "templates/q4k_linear/split_schedule.h"

#include <algorithm>

namespace tilewright {
namespace {

std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::int64_t SplitPlan::longestBlock() const {
  if (grid == 0) return 0;
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
  return plan;
}

}  // namespace tilewright
