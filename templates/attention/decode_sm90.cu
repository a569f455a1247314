// attention.decode_sm90: attention of 1 to 16 query rows for Hopper, limited by reading K and V once; BF16, FP32 sums.
//
//   out[b, h, m, :] = softmax_n(scale * q[b, h, m, :] . k[b, h / group, n, :]) . v[b, h / group, n, :]
//   over n < kvLen[b], and, causal, n <= kvLen[b] - qLen + m; rows that see no key give zeros and a log-sum-exp of -inf
//
// All query rows of a KV head's group are packed into tiles of kRowTile rows, so that K and V cross memory once. KV is
// cut over all SMs by the lengths in device memory (decode_sm90_split.cuh). The parts of a tile are added in a fixed
// order: by a second kernel (decode_sm90_combine.cu), or, where the CTAs of a cluster share a tile, by the cluster
// itself.
//
// One warp streams blocks of kTileN keys through kStages stages (TMA, 128-byte swizzle): enough bytes in flight per SM
// to cover the memory's latency. The other warps share nothing within a part: warp (r, j) holds rows 16 r to + 15,
// takes every block's j-th share of keys, and keeps its own online softmax, so there is no barrier in the loop:
//
//   block of 64 keys, 4 key warps:   [ warp 0: keys 0-15 | warp 1: 16-31 | warp 2: 32-47 | warp 3: 48-63 ]
//
// At the end of a part the key warps' results are merged in shared memory, in order.
#include "templates/attention/decode_sm90_split.cuh"
#include "templates/attention/online_softmax.cuh"
#include "templates/common/mbarrier.cuh"
#include "templates/common/mma.cuh"
#include "templates/common/numeric.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"

// Parameters, defined before this file is included:
//   kHeadDim           columns of q, k, v and out: 64, 128 or 256
//   kCausal            1: key n is hidden from row m when n > kvLen - qLen + m
//   kLogSumExp         1: write the log-sum-exp
//   kRowTile           packed rows of a tile: 16, 32 or 64
//   kTileN             keys of a block
//   kStages            blocks in flight
//   kWarps             computing warps: kRowTile / 16 row warps times key warps
//   kBlocksPerSm       CTAs that share an SM
//   kCluster           CTAs that share a tile; 1: tiles are cut freely over all CTAs
//   kRescaleThreshold  growth of a row's maximum, in powers of two, from which on O is rescaled

namespace tilewright {

constexpr int kRowWarps = kRowTile / 16;
constexpr int kKeyWarps = kWarps / kRowWarps;
constexpr int kWarpKeys = kTileN / kKeyWarps;
constexpr int kThreads = (kWarps + 1) * 32;
constexpr int kChunks = kHeadDim / 64;           // spans of 128 bytes in a row
constexpr int kKvBytes = kTileN * kHeadDim * 2;  // bytes of a K or V block
constexpr int kAccumulators = kHeadDim / 2;      // of O, per thread
constexpr int kMergeStride = kHeadDim + 8;       // floats; 8 beyond a multiple of 32 keeps a warp's stores apart

static_assert(kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256, "rows are whole swizzle spans, sums fit registers");
static_assert(kRowTile % 16 == 0 && kWarps % kRowWarps == 0, "every warp has 16 rows");
static_assert(kTileN % kKeyWarps == 0 && kWarpKeys % 16 == 0, "every key warp has whole fragments of 16 keys");
static_assert(kCluster == 1 || kCluster == 2 || kCluster == 4 || kCluster == 8 || kCluster == 16,
              "lanes that fetch from one CTA of the cluster each divide a warp");
static_assert(kTileN <= 256, "a TMA box has at most 256 rows");

// Results of the key warps, and the maxima and sums of each and of all.
struct Merge {
  float o[kKeyWarps][kRowTile][kMergeStride];
  float maxima[kKeyWarps][kRowTile], sums[kKeyWarps][kRowTile];
  float maximum[kRowTile], sum[kRowTile];
};

struct alignas(1024) Shared {
  U8 k[kStages][kKvBytes];
  U8 v[kStages][kKvBytes];
  Merge merge;  // NOTE: not over the stages: a warp that is done writes it while others still read theirs
  U64 kFull[kStages], kEmpty[kStages], vFull[kStages], vEmpty[kStages];
};

// Bytes of dynamic shared memory: the base is only 16-byte aligned.
constexpr int kSharedBytes = sizeof(Shared) + 1024;

// Address of 16 bytes in a tile of whole rows, each kChunks lines of 128 bytes: column `column` (of 8 elements) of row
// `row`.
__device__ __forceinline__ U32 swizzled(U32 tile, int row, int column) {
  const int line = row * kChunks + column / 8;
  return tile + line * 128 + ((column % 8) ^ (line & 7)) * 16;
}

// The part of CTA `rank` of the cluster that shares a tile; its count may be 0.
__device__ __forceinline__ Part clusterPart(const Params& p, int tile, int rank) {
  Part part;
  part.tile = tile;
  part.batch = tile / (p.kvHeads * p.rowTiles);
  part.kvLen = kvLenOf(p.kvLen, p.capacity, part.batch);
  part.blocks = blocksOf(part.kvLen);
  const int share = (part.blocks + kCluster - 1) / kCluster;
  part.first = rank * share;
  part.count = max(0, min(share, part.blocks - part.first));
  return part;
}

// Q of this warp's 16 rows as A fragments; rows that do not exist are zero.
__device__ __forceinline__ void loadQ(U32 (&q)[kHeadDim / 16][4], const Params& p, int tile, int warpRow) {
  const int lane = threadIdx.x % 32, rows = rowsOf(p, tile);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int packed = warpRow + lane / 4 + r * 8;
    const PackedRow at(p, tile, packed);
    const U16* line = p.q + at.batch * p.qBatchStride + at.head * p.qHeadStride + at.row * p.qRowStride;
    const auto* words = reinterpret_cast<const U32*>(line) + lane % 4;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) q[i / 2][i % 2 * 2 + r] = packed < rows ? __ldg(words + i * 4) : 0;
  }
}

// S = Q K^T of this warp's rows and keys.
__device__ __forceinline__ void multiplyQk(float (&s)[kWarpKeys / 2], const U32 (&q)[kHeadDim / 16][4], U32 tile,
                                           int firstKey) {
  const int lane = threadIdx.x % 32, key = firstKey + lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
#pragma unroll
  for (int i = 0; i < kWarpKeys / 2; ++i) s[i] = 0.0f;
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kWarpKeys / 16; ++n) {
      const uint4 b = loadMatrix4(swizzled(tile, key + n * 16, step * 2 + half));
      mmaBf16At(s, n * 8, q[step], b.x, b.y);
      mmaBf16At(s, n * 8 + 4, q[step], b.z, b.w);
    }
  }
}

// O += P V of this warp's rows and keys. With kMask, keys from `keys` on are cleared: 0 * NaN is NaN.
template <bool kMask>
__device__ __forceinline__ void multiplyPv(float (&o)[kAccumulators], const U32 (&pBits)[kWarpKeys / 16][4], U32 tile,
                                           int firstKey, int keys) {
  const int lane = threadIdx.x % 32, key = firstKey + lane % 16, half = lane / 16;
#pragma unroll
  for (int n = 0; n < kWarpKeys / 16; ++n) {
    U32 mask[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int left = keys - (firstKey + n * 16 + i * 8 + lane % 4 * 2);  // valid keys of this word
      mask[i] = left >= 2 ? 0xffffffffu : left == 1 ? 0xffffu : 0;
    }
#pragma unroll
    for (int column = 0; column < kHeadDim / 16; ++column) {
      uint4 b = loadMatrix4Transposed(swizzled(tile, key + n * 16, column * 2 + half));
      if constexpr (kMask) b.x &= mask[0], b.y &= mask[1], b.z &= mask[0], b.w &= mask[1];
      mmaBf16At(o, column * 8, pBits[n], b.x, b.y);
      mmaBf16At(o, column * 8 + 4, pBits[n], b.z, b.w);
    }
  }
}

// Brings the key warps' results of a part to a common maximum, in shared memory.
__device__ __forceinline__ void mergeWarps(Merge& merge, const Params& p, const float (&o)[kAccumulators],
                                           SoftmaxRows& rows, int rowWarp, int keyWarp) {
  const int lane = threadIdx.x % 32;
  int packed[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    packed[r] = rowWarp * 16 + lane / 4 + r * 8;
    rows.sum[r] += __shfl_xor_sync(kFullWarp, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(kFullWarp, rows.sum[r], 2);
    if (lane % 4 == 0) {
      merge.maxima[keyWarp][packed[r]] = rows.max[r];
      merge.sums[keyWarp][packed[r]] = rows.sum[r];
    }
  }
  namedBarrier(1, kWarps * 32);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = -kInfinity, sum = 0.0f;
    for (int j = 0; j < kKeyWarps; ++j) top = fmaxf(top, merge.maxima[j][packed[r]]);
    const float finite = top == -kInfinity ? 0.0f : top;
    for (int j = 0; j < kKeyWarps; ++j) {
      sum += merge.sums[j][packed[r]] * exp2Fast((merge.maxima[j][packed[r]] - finite) * p.scaleLog2);
    }
    const float factor = exp2Fast((rows.max[r] - finite) * p.scaleLog2);
    auto* line = reinterpret_cast<float2*>(merge.o[keyWarp][packed[r]]) + lane % 4;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i)
      line[i * 4] = float2{o[i * 4 + 2 * r] * factor, o[i * 4 + 2 * r + 1] * factor};
    if (keyWarp == 0 && lane % 4 == 0) merge.maximum[packed[r]] = top, merge.sum[packed[r]] = sum;
  }
  namedBarrier(1, kWarps * 32);
}

// Four columns of a row, added over the key warps in order.
__device__ __forceinline__ float4 addWarps(const Merge& merge, int row, int column) {
  float4 total{0.0f, 0.0f, 0.0f, 0.0f};
  for (int j = 0; j < kKeyWarps; ++j) {
    const float4 each = *reinterpret_cast<const float4*>(&merge.o[j][row][column]);
    total.x += each.x, total.y += each.y, total.z += each.z, total.w += each.w;
  }
  return total;
}

// Writes a merged part: the output of a whole tile, or a slot.
__device__ __forceinline__ void storePart(const Merge& merge, const Params& p, const Part& part) {
  float* slot = p.partials + static_cast<I64>(2 * blockIdx.x + (part.first == 0)) * kSlotFloats;
  const int rows = rowsOf(p, part.tile);
  for (int i = threadIdx.x; i < rows * (kHeadDim / 4); i += kWarps * 32) {
    const int row = i / (kHeadDim / 4), column = i % (kHeadDim / 4) * 4;
    const float4 total = addWarps(merge, row, column);
    if (part.whole()) {
      storeColumns(PackedRow(p, part.tile, row).out(p), column, total, merge.sum[row]);
    } else {
      *reinterpret_cast<float4*>(slot + row * kHeadDim + column) = total;
    }
  }
  for (int row = threadIdx.x; row < rows; row += kWarps * 32) {
    if (!part.whole()) {
      slot[kRowTile * kHeadDim + row] = merge.maximum[row];
      slot[kRowTile * (kHeadDim + 1) + row] = merge.sum[row];
    } else if constexpr (kLogSumExp) {
      *PackedRow(p, part.tile, row).lse(p) = logSumExp(merge.maximum[row], merge.sum[row], p.scaleLog2);
    }
  }
}

// Adds the merged parts of a cluster and writes the output. kCluster lanes fetch four columns from one CTA each and add
// them by shuffles; the CTAs share the columns.
__device__ __forceinline__ void addCluster(Merge& merge, const Params& p, int tile, int rank) {
  constexpr int kComputing = kWarps * 32;
  const int rows = rowsOf(p, tile), count = rows * (kHeadDim / 4);
  if (threadIdx.x < kComputing) {
    for (int i = threadIdx.x; i < count; i += kComputing) {
      const int row = i / (kHeadDim / 4), column = i % (kHeadDim / 4) * 4;
      *reinterpret_cast<float4*>(&merge.o[0][row][column]) = addWarps(merge, row, column);
    }
  }
  __syncwarp();
  clusterSync();
  if (threadIdx.x < kComputing) {
    const int thread = rank * kComputing + threadIdx.x, peer = thread % kCluster;
    for (int first = 0; first < count; first += kComputing) {
      const int i = first + thread / kCluster, row = min(i, count - 1) / (kHeadDim / 4),
                column = i % (kHeadDim / 4) * 4;
      const float maximum = loadRemote(sharedAddress(&merge.maximum[row]), peer);
      float sum = loadRemote(sharedAddress(&merge.sum[row]), peer);
      float4 o = loadRemote4(sharedAddress(&merge.o[0][row][column]), peer);
      float top = maximum;
#pragma unroll
      for (int step = 1; step < kCluster; step *= 2) top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, step));
      const float weight = exp2Fast((maximum - (top == -kInfinity ? 0.0f : top)) * p.scaleLog2);
      sum *= weight, o.x *= weight, o.y *= weight, o.z *= weight, o.w *= weight;
#pragma unroll
      for (int step = 1; step < kCluster; step *= 2) {
        sum += __shfl_xor_sync(kFullWarp, sum, step);
        o.x += __shfl_xor_sync(kFullWarp, o.x, step), o.y += __shfl_xor_sync(kFullWarp, o.y, step);
        o.z += __shfl_xor_sync(kFullWarp, o.z, step), o.w += __shfl_xor_sync(kFullWarp, o.w, step);
      }
      if (peer == 0 && i < count) {
        const PackedRow at(p, tile, row);
        storeColumns(at.out(p), column, o, sum);
        if (kLogSumExp && column == 0) *at.lse(p) = logSumExp(top, sum, p.scaleLog2);
      }
    }
  }
  // A CTA must outlive the reads of its shared memory.
  __syncwarp();
  clusterSync();
}

// Streams the blocks of a part.
__device__ __forceinline__ void loadPart(Shared& shared, const TensorMapParameter& mapK, const TensorMapParameter& mapV,
                                         const Params& p, const Part& part, RingPosition& at) {
  const bool leader = threadIdx.x % 32 == 0;
  const int kvHead = part.tile / p.rowTiles % p.kvHeads;
  const auto load = [&](const TensorMapParameter& map, U8* tile, U64* full, U64* empty, int block) {
    const U32 barrier = sharedAddress(&full[at.stage]), target = sharedAddress(tile);
    barrierWait(sharedAddress(&empty[at.stage]), at.phase ^ 1);
    barrierArriveExpectIf(leader, barrier, kKvBytes);
    tmaLoad5dIf(leader, target, &map, 0, 0, block * kTileN, kvHead, part.batch, barrier, kEvictFirst);
  };
#pragma unroll 1
  for (int i = 0; i < part.count; ++i) {
    load(mapK, shared.k[at.stage], shared.kFull, shared.kEmpty, part.first + i);
    load(mapV, shared.v[at.stage], shared.vFull, shared.vEmpty, part.first + i);
    at.advance<kStages>();
  }
}

// Attends to the blocks of a part and leaves the merged result in shared memory.
__device__ __forceinline__ void attendPart(Shared& shared, const Params& p, const Part& part, RingPosition& at) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rowWarp = warp / kKeyWarps, keyWarp = warp % kKeyWarps;
  const int firstKey = keyWarp * kWarpKeys, group = p.qHeads / p.kvHeads;
  const float c = p.scaleLog2;
  // Gives a stage back behind the products of what was read from it.
  // NOTE: an arrival does not order ldmatrix under way before the copy engine's writes, and fenceAsyncShared() cost up
  // to an eighth of the time. So the address depends on a sum of each product, in which every load has arrived; `never`
  // is 0, which the compiler does not know.
  const U32 never = static_cast<U32>(p.kvHeads >> 31);
  const auto release = [&](U64* empty, const auto& sums) {
    U32 bits = 0;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(sums) / sizeof(sums[0])); i += 4) bits |= __float_as_uint(sums[i]);
    __syncwarp();
    if (lane == 0) barrierArrive(sharedAddress(&empty[at.stage]) + (bits & never));
  };
  U32 q[kHeadDim / 16][4];
  loadQ(q, p, part.tile, rowWarp * 16);

  // The last key that each of the thread's two rows sees, and the last that all rows of the tile see.
  int lastKey[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int packed = part.tile % p.rowTiles * kRowTile + rowWarp * 16 + lane / 4 + r * 8;
    lastKey[r] = part.kvLen - 1 - (kCausal ? max(0, p.qLen - 1 - packed / group) : 0);
  }
  const int lastCommon = part.kvLen - (kCausal ? p.qLen : 1);

  SoftmaxRows rows;
  float o[kAccumulators];
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) o[i] = 0.0f;
#pragma unroll 1
  for (int i = 0; i < part.count; ++i) {
    const int blockKey = (part.first + i) * kTileN;
    float s[kWarpKeys / 2], factor[2];
    U32 pBits[kWarpKeys / 16][4];
    barrierWait(sharedAddress(&shared.kFull[at.stage]), at.phase);
    multiplyQk(s, q, sharedAddress(shared.k[at.stage]), firstKey);
    release(shared.kEmpty, s);

    const bool masked = blockKey + kTileN - 1 > lastCommon;
    const int threadKey = blockKey + firstKey + lane % 4 * 2;
    const bool moved = masked ? softmaxStep<true>(s, rows, factor, c, lastKey[0] - threadKey, lastKey[1] - threadKey)
                              : softmaxStep<false>(s, rows, factor, c, 0, 0);
    if (moved) scaleRows(o, factor);
    packScores(pBits, s);

    barrierWait(sharedAddress(&shared.vFull[at.stage]), at.phase);
    const U32 v = sharedAddress(shared.v[at.stage]);
    if (masked) {
      multiplyPv<true>(o, pBits, v, firstKey, part.kvLen - blockKey);
    } else {
      multiplyPv<false>(o, pBits, v, firstKey, kTileN);
    }
    release(shared.vEmpty, o);
    at.advance<kStages>();
  }
  mergeWarps(shared.merge, p, o, rows, rowWarp, keyWarp);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_decode_sm90(const __grid_constant__ TensorMapParameter mapK,
                          const __grid_constant__ TensorMapParameter mapV, const __grid_constant__ Params p) {
  extern __shared__ U8 raw[];
  auto& shared = *reinterpret_cast<Shared*>((reinterpret_cast<U64>(raw) + 1023) & ~1023ull);
  letNextKernelStart();
  if (threadIdx.x == 0) {
    tmaPrefetchMap(&mapK);
    tmaPrefetchMap(&mapV);
    for (int i = 0; i < kStages; ++i) {
      barrierInit(sharedAddress(&shared.kFull[i]), 1);
      barrierInit(sharedAddress(&shared.vFull[i]), 1);
      barrierInit(sharedAddress(&shared.kEmpty[i]), kWarps);
      barrierInit(sharedAddress(&shared.vEmpty[i]), kWarps);
    }
    barrierInitFence();
  }
  __syncthreads();
  const bool producer = __shfl_sync(kFullWarp, threadIdx.x / 32, 0) == kWarps;
  RingPosition at;
  if constexpr (kCluster > 1) {
    const int rank = clusterRank(), tile = blockIdx.x / kCluster;
    const Part part = clusterPart(p, tile, rank);
    if (producer) {
      loadPart(shared, mapK, mapV, p, part, at);
    } else {
      attendPart(shared, p, part, at);
    }
    __syncwarp();
    addCluster(shared.merge, p, tile, rank);
  } else {
    const Split split(p);
    const U32 end = split.begin(blockIdx.x + 1);
    U32 length = 0;
    for (U32 position = split.begin(blockIdx.x); position < end; position += length) {
      const Part part = split.partAt(position, end, length);
      if (producer) {
        loadPart(shared, mapK, mapV, p, part, at);
      } else {
        attendPart(shared, p, part, at);
        storePart(shared.merge, p, part);
      }
    }
  }
}

}  // namespace tilewright
