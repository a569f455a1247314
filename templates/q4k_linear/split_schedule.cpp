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

SplitPlan planSplit(std::int64_t n, std::int64_t k, std::int64_t m, TileShape tile, int units,
                    std::int64_t fewestBlocks) {
  const std::int64_t tokenTiles = ceilDiv(m, tile.tokens), tiles = ceilDiv(n, tile.rows) * tokenTiles;
  const std::int64_t blocks = k / 256;
  SplitPlan plan;
  plan.schedule.tiles = static_cast<std::int32_t>(tiles);
  plan.schedule.tokenTiles = static_cast<std::int32_t>(tokenTiles);
  plan.schedule.blocks = static_cast<std::int32_t>(blocks);

  if (fewestBlocks == 0 || tiles % units == 0) {
    plan.schedule.wholeTiles = plan.schedule.tiles;
    plan.grid = static_cast<std::int32_t>(std::min<std::int64_t>(tiles, units));
    return plan;
  }
  // Leave between one and two rounds to be split: then a block holds at least one tile's worth and a tile has few
  // parts.
  const std::int64_t wholeTiles = std::max<std::int64_t>(tiles / units - 1, 0) * units, splitTiles = tiles - wholeTiles;
  const std::int64_t chunk = std::max(ceilDiv(splitTiles * blocks, units), std::min(fewestBlocks, blocks));
  const std::int64_t chunks = ceilDiv(splitTiles * blocks, chunk);
  plan.schedule.wholeTiles = static_cast<std::int32_t>(wholeTiles);
  plan.schedule.chunk = static_cast<std::int32_t>(chunk);
  plan.grid = static_cast<std::int32_t>(wholeTiles > 0 ? units : chunks);
  plan.splitTiles = static_cast<std::int32_t>(splitTiles);
  plan.slots = static_cast<std::int32_t>(2 * chunks);
  return plan;
}

}  // namespace tilewright
