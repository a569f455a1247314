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
// Where that costs little, every tile is padded to whole pieces, so that no CTA works on two tiles and the heads of a
// batch entry are read in step, as they lie side by side in a [b, l, h, d] cache.
//
// A part that is a whole tile is finished where it is computed; any other goes to a slot of the workspace, and the
// combining kernel adds a tile's slots in the order of the line. With kCluster > 1 there is no line: the CTAs of a
// cluster share one tile evenly and add their parts through distributed shared memory.
#pragma once

#include "templates/attention/segments.cuh"
#include "templates/common/numeric.cuh"
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

// A range of one tile's key blocks.
struct Part {
  int tile, batch, kvLen;
  int first, count, blocks;  // of the tile's `blocks`, those from `first` on

  __device__ bool whole() const { return count == blocks; }
};

// Where a tile begins on the line, and how many blocks it has.
struct TileRange {
  U32 begin;
  int blocks;
};

// At least one block a tile, so that rows without keys take the same path (all masked, output zero).
__device__ __forceinline__ int blocksOf(int kvLen) {
  return max(1, (kvLen + kTileN - 1) / kTileN);
}

class Split {
 public:
  __device__ explicit Split(const Params& p) : p_(p), tilesPerBatch_(p.kvHeads * p.rowTiles) {
    total_ = lineLength();
    const U32 least = (total_ + p.pieces - 1) / p.pieces;
    quota_ = least;

    // Pad the tiles where pieces that are at most an eighth longer then suffice.
    padded_ = true;
    for (U32 quota = least; quota <= least + least / 8; quota += 1 + least / 64) {
      quota_ = quota;
      const U32 length = lineLength();
      if (length <= p.pieces * quota) {
        total_ = length;
        return;
      }
    }
    padded_ = false;
    quota_ = least;
  }

  __device__ U32 begin(int piece) const { return min(piece * quota_, total_); }
  __device__ int pieceAt(U32 position) const { return position / quota_; }

  // The part from position `at` on, up to the end of its tile or to `end`; its length on the line in `length`.
  __device__ Part partAt(U32 at, U32 end, U32& length) const {
    const Segment entry =
        findSegment(p_.batch, [&](int b) { return lengthOf(b); }, [&](int, U32 entryEnd) { return entryEnd > at; });
    const U32 tileLength = entry.length / tilesPerBatch_, within = at - entry.begin;
    Part part;
    part.batch = entry.index;
    part.tile = entry.index * tilesPerBatch_ + within / tileLength;
    part.kvLen = kvLenOf(p_.kvLen, p_.capacity, entry.index);
    part.blocks = blocksOf(part.kvLen);
    part.first = within % tileLength;
    length = min(tileLength - part.first, end - at);
    part.count = min(static_cast<int>(length), part.blocks - part.first);
    return part;
  }

  __device__ TileRange rangeOf(int tile) const {
    const int batch = tile / tilesPerBatch_;
    const Segment entry =
        findSegment(p_.batch, [&](int b) { return lengthOf(b); }, [&](int b, U32) { return b == batch; });
    return {entry.begin + tile % tilesPerBatch_ * (entry.length / tilesPerBatch_),
            blocksOf(kvLenOf(p_.kvLen, p_.capacity, batch))};
  }

 private:
  __device__ U32 lineLength() const {
    return findSegment(p_.batch, [&](int b) { return lengthOf(b); }, [](int, U32) { return false; }).begin;
  }
  __device__ U32 lengthOf(int b) const {
    const U32 blocks = blocksOf(kvLenOf(p_.kvLen, p_.capacity, b));
    return tilesPerBatch_ * (padded_ ? (blocks + quota_ - 1) / quota_ * quota_ : blocks);
  }

  const Params& p_;
  const U32 tilesPerBatch_;
  U32 total_, quota_;
  bool padded_ = false;
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

// Four columns of a packed row of the output, normalized.
__device__ __forceinline__ void storeColumns(U16* line, int column, float4 o, float sum) {
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  *reinterpret_cast<uint2*>(line + column) =
      uint2{packBf16(o.x * inverse, o.y * inverse), packBf16(o.z * inverse, o.w * inverse)};
}

}  // namespace tilewright
