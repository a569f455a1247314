// attention.decode_sm90: the arguments, and how KV is cut over the CTAs.
//
// A tile is kRowTile packed rows of one KV head of one batch entry: row r is query row r / group of head r % group of
// the head's group. The key blocks of all tiles, laid end to end, form one line, cut into pieces of `quota` blocks, one
// per CTA. The line is measured from the lengths in device memory, so a long buffer with few keys in it is spread over
// all SMs like a short one.
//
//   tiles    | tile 0            | tile 1            | tile 2            |
//   pieces   | CTA 0      | CTA 1      | CTA 2      | CTA 3      | ...
//   slots      1           0     3      2     5      4  ...                 2 c + 1 where a tile begins, else 2 c
//
// A part that is a whole tile is finished where it is computed; any other goes to a slot of the workspace, and the
// combining kernel adds a tile's slots in the order of the line.
#pragma once

#include "templates/attention/segments.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

// Strides in elements.
struct Params {
  const U16* q;      // BF16 [b, hq, lq, d]
  U16* out;          // BF16 [b, hq, lq, d]
  float* lse;        // FP32 [b, hq, lq], where kLogSumExp
  const int* kvLen;  // int32 [b], clamped to [0, capacity]; null: capacity
  float* partials;   // two slots of kSlotFloats per CTA of the first kernel
  I64 qBatchStride, qHeadStride, qRowStride;
  I64 outBatchStride, outHeadStride, outRowStride;
  int batch, qHeads, kvHeads, qLen, capacity;
  int rowTiles;     // ceil(qLen * group / kRowTile)
  int pieces;       // CTAs of the first kernel
  float scaleLog2;  // scale * log2(e)
};

constexpr int kSlotFloats = kRowTile * (kHeadDim + 2);  // O unnormalized [kRowTile, kHeadDim], then maxima, then sums
constexpr U32 kMinimumQuota = 1;

// A range of one tile's key blocks.
struct Part {
  int tile, batch, kvLen;
  int first, count, blocks;  // of the tile's `blocks`, those from `first` on

  __device__ bool whole() const { return count == blocks; }
};

// Where a tile begins on the line, and what it is made of.
struct TileRange {
  U32 begin;
  int blocks, kvLen;
};

class Split {
 public:
  __device__ explicit Split(const Params& p) : p_(p), tilesPerBatch_(p.kvHeads * p.rowTiles) {
    total_ = findSegment(p.batch, [&](int b) { return lengthOf(b); }, [](int, U32) { return false; }).begin;
    quota_ = max(kMinimumQuota, (total_ + p.pieces - 1) / p.pieces);
  }

  __device__ U32 quota() const { return quota_; }
  __device__ U32 begin(int piece) const { return min(piece * quota_, total_); }

  // The part from position `at` on, up to the end of its tile or to `end`.
  __device__ Part partAt(U32 at, U32 end) const {
    const Segment entry =
        findSegment(p_.batch, [&](int b) { return lengthOf(b); }, [&](int, U32 entryEnd) { return entryEnd > at; });
    const U32 blocks = entry.length / tilesPerBatch_, within = at - entry.begin;
    Part part;
    part.batch = entry.index;
    part.tile = entry.index * tilesPerBatch_ + within / blocks;
    part.kvLen = kvLenOf(p_.kvLen, p_.capacity, entry.index);
    part.first = within % blocks;
    part.count = min(blocks - part.first, end - at);
    part.blocks = blocks;
    return part;
  }

  __device__ TileRange rangeOf(int tile) const {
    const int batch = tile / tilesPerBatch_;
    const Segment entry =
        findSegment(p_.batch, [&](int b) { return lengthOf(b); }, [&](int b, U32) { return b == batch; });
    const U32 blocks = entry.length / tilesPerBatch_;
    return {entry.begin + tile % tilesPerBatch_ * blocks, static_cast<int>(blocks),
            kvLenOf(p_.kvLen, p_.capacity, batch)};
  }

 private:
  // At least one block a tile, so that rows without keys take the same path (all masked, output zero).
  __device__ U32 lengthOf(int b) const {
    return tilesPerBatch_ * max(1, (kvLenOf(p_.kvLen, p_.capacity, b) + kTileN - 1) / kTileN);
  }

  const Params& p_;
  const U32 tilesPerBatch_;
  U32 total_, quota_;
};

// The query row and head of a tile's packed row.
struct PackedRow {
  int batch, head, row;

  __device__ PackedRow(const Params& p, int tile, int packed) {
    const int group = p.qHeads / p.kvHeads, kvTile = tile / p.rowTiles;
    const int r = tile % p.rowTiles * kRowTile + packed;
    batch = kvTile / p.kvHeads;
    head = kvTile % p.kvHeads * group + r % group;
    row = r / group;
  }
  __device__ U16* out(const Params& p) const {
    return p.out + batch * p.outBatchStride + head * p.outHeadStride + row * p.outRowStride;
  }
  __device__ float* lse(const Params& p) const {
    return p.lse + (static_cast<I64>(batch) * p.qHeads + head) * p.qLen + row;
  }
};

// Packed rows of a tile that exist.
__device__ __forceinline__ int rowsOf(const Params& p, int tile) {
  return min(kRowTile, p.qLen * (p.qHeads / p.kvHeads) - tile % p.rowTiles * kRowTile);
}

}  // namespace tilewright
