// Which parts of which tiles a block computes: whole tiles in turns, then an even share of the rest, cut along k.
//
//   tiles 0 .. wholeTiles - 1     block b takes tiles b, b + grid, b + 2 grid, ... from end to end
//   the other tiles               their super-blocks of k in one line, tile after tile, cut into chunks of equal
//                                 length; block b takes chunk b, which may begin and end inside a tile
//              or, with clusters  cluster c takes tile wholeTiles + c, each of its blocks the slice of k that its rank
//                                 names
//
// Worked example: 5 tiles of 8 super-blocks on 4 blocks. One whole tile each would leave three blocks idle in the
// second turn. Here no tile is whole, the line has 40 super-blocks, a chunk 10: block 0 takes tile 0 and a quarter of
// tile 1, block 1 the rest of tile 1 and half of tile 2, ...: 10 steps instead of 16.
//
// The parts of a tile are numbered along k. Each is stored in a slot of its own; the block that finishes last (a
// counter per tile tells) adds the slots up in the order of their numbers, so that results do not depend on who was
// last. Nobody waits: blocks need not be resident together. The blocks of a cluster are, and hand their parts to each
// other directly. split_schedule.h is the host's half.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

struct SplitSchedule {
  int tiles;
  int tokenTiles;  // tile t covers row tile t / tokenTiles and token tile t % tokenTiles
  int blocks;      // super-blocks of k
  int wholeTiles;  // a multiple of the grid, or all tiles
  int chunk;       // super-blocks of a chunk
  int slices;      // chunks of each split tile; 0: shares
  int cluster;     // blocks that share a split tile, each cluster at most one; 0: chunks
};

/// Super-blocks [begin, end) of a tile.
struct Segment {
  int tile, begin, end;

  __device__ __forceinline__ bool isWhole(const SplitSchedule& s) const { return begin == 0 && end == s.blocks; }
};

/// The segments of this block, in order. Every role of the block walks a copy of the same walker. Without kSplits all
/// tiles are whole, which needs three registers less.
template <bool kSplits>
class SegmentWalker {
 public:
  __device__ __forceinline__ explicit SegmentWalker(const SplitSchedule& s) : tile_(blockIdx.x) {
    if constexpr (!kSplits) return;
    if (s.cluster > 0) {
      const int cluster = blockIdx.x / s.cluster, rank = blockIdx.x - cluster * s.cluster;
      splitTile_ = s.wholeTiles + cluster;
      begin_ = s.blocks * rank / s.cluster;
      left_ = splitTile_ < s.tiles ? s.blocks * (rank + 1) / s.cluster - begin_ : 0;
      return;
    }
    if (s.chunk == 0) return;
    const int chunk = blockIdx.x, splitTiles = s.tiles - s.wholeTiles;
    if (s.slices > 0) {
      const int tile = chunk / s.slices;
      splitTile_ = s.wholeTiles + tile;
      begin_ = (chunk - tile * s.slices) * s.chunk;
      left_ = tile < splitTiles ? min(s.chunk, s.blocks - begin_) : 0;
    } else {
      const int begin = chunk * s.chunk, tile = begin / s.blocks;
      splitTile_ = s.wholeTiles + tile;
      begin_ = begin - tile * s.blocks;
      left_ = max(min(s.chunk, splitTiles * s.blocks - begin), 0);
    }
  }

  __device__ __forceinline__ bool next(const SplitSchedule& s, Segment& segment) {
    if (tile_ < s.wholeTiles) {
      segment = {tile_, 0, s.blocks};
      tile_ += gridDim.x;
      return true;
    }
    if (!kSplits || left_ == 0) return false;
    const int count = min(s.blocks - begin_, left_);
    segment = {splitTile_, begin_, begin_ + count};
    ++splitTile_;
    begin_ = 0;
    left_ -= count;
    return true;
  }

  /// The same for a whole warp, all lanes together.
  // NOTE: the compiler cannot see that these values are uniform, and loop bounds that it believes to differ between
  // lanes keep ring positions and descriptors out of uniform registers. That cost a tenth of the speed.
  __device__ __forceinline__ bool nextUniform(const SplitSchedule& s, Segment& segment) {
    Segment own{};
    const bool found = __any_sync(~0u, next(s, own));
    segment = {__shfl_sync(~0u, own.tile, 0), __shfl_sync(~0u, own.begin, 0), __shfl_sync(~0u, own.end, 0)};
    return found;
  }

 private:
  int tile_;
  int splitTile_ = 0, begin_ = 0, left_ = 0;  // the rest of the chunk, or the slice
};

/// The parts of a split tile and their slots: 2 c for the segment that begins chunk c, 2 c + 1 for one that only ends
/// it.
class TileParts {
 public:
  __device__ __forceinline__ TileParts(const SplitSchedule& s, int tile) {
    tile -= s.wholeTiles;
    if (s.slices > 0) {
      first_ = tile * s.slices;
      firstSlot_ = 2 * first_;
      count_ = s.slices;
    } else {
      const int begin = tile * s.blocks;
      first_ = begin / s.chunk;
      firstSlot_ = 2 * first_ + (begin > first_ * s.chunk);
      count_ = (begin + s.blocks - 1) / s.chunk - first_ + 1;
    }
  }
  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ int slot(int part) const { return part == 0 ? firstSlot_ : 2 * (first_ + part); }
  /// The part that this block computes.
  __device__ __forceinline__ int own() const { return static_cast<int>(blockIdx.x) - first_; }

 private:
  int first_, firstSlot_, count_;
};

}  // namespace tilewright
