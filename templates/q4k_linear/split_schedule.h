// How the tiles of a linear layer are dealt to the blocks of a persistent grid, and what a split along k needs: the
// host's half of split_schedule.cuh, which explains the scheme.
#pragma once

#include <cstdint>

namespace tilewright {

struct TileShape {
  std::int64_t rows;    ///< rows of W
  std::int64_t tokens;  ///< rows of x
};

/// The kernel's argument; the device has the same struct.
struct SplitSchedule {
  std::int32_t tiles = 0;
  std::int32_t tokenTiles = 0;
  std::int32_t blocks = 0;
  std::int32_t wholeTiles = 0;
  std::int32_t chunk = 0;
};

struct SplitPlan {
  SplitSchedule schedule;
  std::int32_t grid = 0;        ///< blocks of threads
  std::int32_t splitTiles = 0;  ///< tiles that may have several parts
  std::int32_t slots = 0;       ///< of one tile's accumulators each

  /// Super-blocks of k that the busiest block takes.
  std::int64_t longestBlock() const;
};

/// Tiles in whole numbers when `fewestBlocks` is 0; else what does not fill whole rounds is cut along k into chunks of
/// at least `fewestBlocks` super-blocks. `units` is how many blocks run at once.
SplitPlan planSplit(std::int64_t n, std::int64_t k, std::int64_t m, TileShape tile, int units,
                    std::int64_t fewestBlocks);

}  // namespace tilewright
