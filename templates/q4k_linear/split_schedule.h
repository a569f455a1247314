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
  std::int32_t slices = 0;
  std::int32_t cluster = 0;
};

struct SplitPlan {
  SplitSchedule schedule;
  std::int32_t grid = 0;        ///< blocks of threads
  std::int32_t splitTiles = 0;  ///< tiles that may have several parts
  std::int32_t slots = 0;       ///< of one tile's accumulators each; 0: no part goes through the workspace

  /// Super-blocks of k that the busiest block takes.
  std::int64_t longestBlock() const;
};

enum class SplitMode : std::int64_t {
  kNone = 0,    ///< tiles in whole numbers
  kShares = 1,  ///< what exceeds whole rounds, and one round more, in equal shares: best balance, two cuts a block
  kSlices = 2,  ///< each tile that exceeds whole rounds in as many slices as blocks are left for it: one cut a block
  kPairs = 3,   ///< each tile that exceeds whole rounds by the two blocks of a cluster, without workspace
};

/// Blocks of a cluster; 1 where the mode has none.
std::int64_t clusterBlocks(SplitMode mode);

/// `units` is how many blocks run at once, on as many SMs.
SplitPlan planSplit(std::int64_t n, std::int64_t k, std::int64_t m, TileShape tile, int units, SplitMode mode);

}  // namespace tilewright
