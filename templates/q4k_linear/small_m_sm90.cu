// out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) for few rows of x, bound by the stream of Q4_K weights from device
// memory.
//
// Weights are not converted: the four bits of a code are an operand of mma.m16n8k32 as they are, q from the low nibbles
// and 16 q from the high ones, unsigned, against s8 activations with a scale for each 32 k. A sub-block is one product:
//
//   out[r, c] += d sc[j] / (1 or 16) . xs[j, c] . (sum over 32 k of q x)      s32 from the tensor core, exact
//   out[r, c] -= dmin mn[j] . xs[j, c] . (sum over 32 k of x)                 one tf32 product for all 8 sub-blocks
//
// That costs about 2 instructions a weight and token group, half of what the schedulers issue while the weights stream
// in.
//
// Tile: kRowWarps x 16 rows of W, 8 kTokenGroups tokens. A step takes kSplitWarps super-blocks of k, one for each of as
// many warps of the same rows, whose sums are added up in shared memory at the end of a tile: low tiles, of which there
// are enough for all SMs, still keep enough warps busy. A block is persistent (split_schedule.cuh) and one producer
// thread keeps kStages steps of W in flight, each one copy of 144 bytes x rows x super-blocks.
//
//   kActivations 0   x comes with each step, quantized by small_m_quantize.cu in the order in which fragments take it
//                1   x lies in shared memory for all k, copied from there at the beginning
//                2   the same, quantized by this kernel while the first weights stream in: no other kernel runs
//
//   fragments of lane 4 g + t:  A rows g and g + 8, bytes 4 t and 16 + 4 t of a sub-block;  B token g, the same bytes
//   of k;
//                               accumulators rows g and g + 8, tokens 2 t and 2 t + 1
#include "templates/common/mbarrier.cuh"
#include "templates/common/numeric.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/small_m_activations.cuh"
#include "templates/q4k_linear/split_schedule.cuh"

// Parameters:
//   kTokenGroups    groups of 8 tokens
//   kRowWarps       groups of 16 rows of W of a tile
//   kSplitWarps     super-blocks of k of a step, and warps for each group of rows
//   kActivations    0 to 2, see above
//   kStages         steps in flight
//   kTickets        1: a block that is done with a tile draws the next one's number, for SMs get unequal shares of the
//                   memory's bandwidth; tiles are then not split
//   kBlocksPerUnit  blocks that share an SM
static_assert(kTokenGroups >= 1 && kTokenGroups <= 4, "up to 32 tokens");
static_assert(kRowWarps * kSplitWarps <= 16 && kSplitWarps <= 8, "consumer warps of a block");
static_assert(kActivations >= 0 && kActivations <= 2, "x with each step, resident, or quantized here");

using namespace tilewright;

constexpr int kRows = kRowWarps * 16;
constexpr int kWarps = kRowWarps * kSplitWarps;
constexpr int kThreads = kWarps * 32 + 32;
constexpr int kStepBytesW = kSplitWarps * kRows * kBlockBytes;
constexpr int kPieceBytes = kTokenGroups * kGroupBytes;  // x of one super-block
constexpr int kStageBytes = kStepBytesW + (kActivations == 0 ? kSplitWarps * kPieceBytes : 0);
static_assert(kStageBytes % 128 == 0, "the copy engine's alignment");

// Shared memory: stages; sums of the split warps, for even and odd tiles; resident x; barriers. 128 bytes align its
// base.
constexpr int kOffsetSums = kStages * kStageBytes;
constexpr int kSumBytes = kSplitWarps > 1 ? kWarps * kTokenGroups * 512 : 0;  // of one tile
constexpr int kOffsetBarriers = kOffsetSums + 2 * kSumBytes;
constexpr int kOffsetTiles = kOffsetBarriers + 16 * kStages + 8;  // a stage's tile, with tickets
constexpr int kOffsetX = kOffsetBarriers + roundUp(20 * kStages + 8, 128);
static_assert(kOffsetX + 128 == kFixedSharedBytes, "shared memory without x as the host computes it");

struct SmallMArguments {
  const U8* activations;  // [k / 256, token group] of kGroupBytes; unused when they are quantized here
  const uint4* x;         // [m, k] BF16, rows of xStride vectors of 8; used when they are quantized here
  const U16* bias;        // BF16 [n], or null
  U16* out;               // BF16 [m, n], rows of outStride elements
  float4* partials;       // [slot, row warp, token group, lane]; unused without split tiles
  U32* counters;          // [split tile, row warp], or the next ticket; zero
  I64 xStride, outStride;
  I32 m, n, blocks;
  I32 isFirst;             // 1: the kernel before this one may be the caller's, who may have made W with it
  SplitSchedule schedule;  // in steps of kSplitWarps super-blocks
};

// d += A . B with A unsigned and B signed bytes; the s32 sum comes as the float 1.5 2^23 + sum, which needs no
// conversion.
__device__ __forceinline__ void multiplyCodes(float (&d)[4], U32 a0, U32 a1, U32 a2, U32 a3, uint2 b) {
  U32 bits[4];
  asm("{.reg .b32 c; mov.b32 c, 0x4b400000;"
      " mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {c, c, c, c};}"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b.x), "r"(b.y));
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = __uint_as_float(bits[i]);
}
constexpr float kSumBase = 12582912.0f;
static_assert(240 * 127 * 32 < 4194304, "a sub-block's sum stays in the mantissa below the base");

/// d += A . B, tf32, 8 k.
__device__ __forceinline__ void multiplyTf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/// factor times a byte of `bytes`; `minusBase` is -2^23 factor. One rounding.
__device__ __forceinline__ float scaleByte(U32 bytes, int index, float factor, float minusBase) {
  return fmaf(__uint_as_float(__byte_perm(bytes, 0x4b000000, 0x7440 | index)), factor, minusBase);
}

/// This lane's 16 rows of one super-block: out += W . x.
__device__ __forceinline__ void accumulateBlock(float (&out)[kTokenGroups][4], U32 w, U32 x) {
  const int lane = threadIdx.x % 32, t = lane % 4;

  // Factors of rows g and g + 8.
  BlockFactors f[2];
  float scaleBase[2], minimumBase[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    f[i] = unpackFactors(loadShared4(w + i * 8 * kBlockBytes), 1.0f);
    scaleBase[i] = -8388608.0f * f[i].d;
    minimumBase[i] = 8388608.0f * f[i].dmin;
  }

  // The minimums: A[row, j] = -dmin mn[j] for sub-blocks j = t and t + 4.
  float minimums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const U32 byte = f[i % 2].minimums[i / 2] >> 8 * t & 255;
    const float v = fmaf(__uint_as_float(0x4b000000 | byte), -f[i % 2].dmin, minimumBase[i % 2]);
    minimums[i] = roundToTf32(v);
  }
#pragma unroll
  for (int group = 0; group < kTokenGroups; ++group) {
    const U32 sums = x + group * kGroupBytes + kSumOffset;
    multiplyTf32(out[group], minimums, loadSharedFloat(sums + (t * 8 + lane / 4) * 4),
                 loadSharedFloat(sums + ((t + 4) * 8 + lane / 4) * 4));
  }

  // The codes: sub-blocks 2 c and 2 c + 1 from the same words.
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    U32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = loadShared(w + i % 2 * 8 * kBlockBytes + kNibbleOffset + 32 * c + i / 2 * 16 + 4 * t);
    }
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      const int j = 2 * c + high;
      const U32 mask = high != 0 ? 0xf0f0f0f0u : 0x0f0f0f0fu;
      float scales[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        scales[i] = scaleByte(f[i].scales[j / 4], j % 4, f[i].d, scaleBase[i]) * (high != 0 ? 0.0625f : 1.0f);
      }
#pragma unroll
      for (int group = 0; group < kTokenGroups; ++group) {
        const U32 base = x + group * kGroupBytes;
        float sums[4];
        multiplyCodes(sums, words[0] & mask, words[1] & mask, words[2] & mask, words[3] & mask,
                      loadShared2(base + j * 256 + lane * 8));
        const float2 s = loadSharedFloat2(base + kScaleOffset + (j * 8 + 2 * t) * 4);
        out[group][0] = fmaf(sums[0] - kSumBase, scales[0] * s.x, out[group][0]);
        out[group][1] = fmaf(sums[1] - kSumBase, scales[0] * s.y, out[group][1]);
        out[group][2] = fmaf(sums[2] - kSumBase, scales[1] * s.x, out[group][2]);
        out[group][3] = fmaf(sums[3] - kSumBase, scales[1] * s.y, out[group][3]);
      }
    }
  }
}

/// Stores this warp's part of a split tile. Returns whether it was the last; then `out` is the sum of all, in order.
__device__ __forceinline__ bool addUpParts(const SmallMArguments& p, int rowWarp, int tile,
                                           float (&out)[kTokenGroups][4]) {
  const TileParts parts(p.schedule, tile);
  constexpr int kSlotVectors = kRowWarps * kTokenGroups * 32;
  float4* const partials = p.partials + rowWarp * kTokenGroups * 32 + threadIdx.x % 32;

  float4* own = partials + static_cast<I64>(parts.slot(parts.own())) * kSlotVectors;
#pragma unroll
  for (int group = 0; group < kTokenGroups; ++group) {
    __stcg(own + group * 32, make_float4(out[group][0], out[group][1], out[group][2], out[group][3]));
  }

  // Count this part; whoever completes the count sees the others' stores.
  __threadfence();
  __syncwarp();
  U32 before = 0;
  if (threadIdx.x % 32 == 0) before = atomicAdd(p.counters + (tile - p.schedule.wholeTiles) * kRowWarps + rowWarp, 1u);
  before = __shfl_sync(~0u, before, 0);
  if (before != static_cast<U32>(parts.count()) - 1) return false;
  __threadfence();

#pragma unroll
  for (int group = 0; group < kTokenGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[group][i] = 0.0f;
  }
#pragma unroll 4
  for (int part = 0; part < parts.count(); ++part) {
    const float4* other = partials + static_cast<I64>(parts.slot(part)) * kSlotVectors;
#pragma unroll
    for (int group = 0; group < kTokenGroups; ++group) {
      const float4 v = __ldcg(other + group * 32);
      out[group][0] += v.x, out[group][1] += v.y, out[group][2] += v.z, out[group][3] += v.w;
    }
  }
  return true;
}

/// Adds the bias and stores rows row + g and row + g + 8.
__device__ __forceinline__ void storeRows(const SmallMArguments& p, int row, const float (&out)[kTokenGroups][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int n = row + lane / 4 + 8 * i;
    if (n >= p.n) continue;
    const float bias = p.bias != nullptr ? bf16ToFloat(__ldg(p.bias + n)) : 0.0f;
#pragma unroll
    for (int group = 0; group < kTokenGroups; ++group) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = group * 8 + lane % 4 * 2 + e;
        const float v = out[group][2 * i + e] + bias;
        if (token < p.m) p.out[token * p.outStride + n] = static_cast<U16>(packBf16(v, v));
      }
    }
  }
}

/// Adds the sums of the warps of one group of rows, in their order; true for the warp that then holds them.
__device__ __forceinline__ bool addUpWarps(U32 sums, int rowWarp, int splitWarp, float (&out)[kTokenGroups][4]) {
  const U32 mine = sums + (rowWarp * kSplitWarps * kTokenGroups * 32 + threadIdx.x % 32) * 16;
  if (splitWarp > 0) {
#pragma unroll
    for (int group = 0; group < kTokenGroups; ++group) {
      storeShared4(mine + (splitWarp * kTokenGroups + group) * 512, __float_as_uint(out[group][0]),
                   __float_as_uint(out[group][1]), __float_as_uint(out[group][2]), __float_as_uint(out[group][3]));
    }
  }
  namedBarrier(1 + rowWarp, kSplitWarps * 32);
  if (splitWarp > 0) return false;
#pragma unroll
  for (int other = 1; other < kSplitWarps; ++other) {
#pragma unroll
    for (int group = 0; group < kTokenGroups; ++group) {
      const uint4 v = loadShared4(mine + (other * kTokenGroups + group) * 512);
      out[group][0] += __uint_as_float(v.x), out[group][1] += __uint_as_float(v.y);
      out[group][2] += __uint_as_float(v.z), out[group][3] += __uint_as_float(v.w);
    }
  }
  return true;
}

/// All consumers quantize x into shared memory, a warp 256 k of a token at a time, kAhead of them loaded ahead. What no
/// token fills becomes zero.
__device__ __forceinline__ void quantizeResident(const SmallMArguments& p, U8* pieces, int warp) {
  constexpr int kAhead = 4;
  const int lane = threadIdx.x % 32;
  if (p.m < kTokenGroups * 8) {
    for (int i = threadIdx.x; i < p.blocks * (kPieceBytes / 16); i += kWarps * 32) {
      storeShared4(sharedAddress(pieces) + i * 16, 0, 0, 0, 0);
    }
    namedBarrier(1 + kRowWarps, kWarps * 32);
  }
  for (int token = 0; token < p.m; ++token) {
    const uint4* x = p.x + token * p.xStride + lane;
    U8* group = pieces + token / 8 * kGroupBytes;
    for (int first = warp; first < p.blocks; first += kWarps * kAhead) {
      uint4 v[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int block = first + i * kWarps;
        v[i] = block < p.blocks ? __ldg(x + block * 32) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int block = first + i * kWarps;
        if (block < p.blocks) quantizePiece(group + block * kPieceBytes, v[i], token);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerUnit)
    q4kLinearSmallM(const __grid_constant__ TensorMapParameter mapW, const SmallMArguments p) {
  extern __shared__ U8 dynamic[];
  U8* const base = dynamic + (-sharedAddress(dynamic) & 127u);
  const U32 stages = sharedAddress(base), sums = stages + kOffsetSums, residentX = stages + kOffsetX;
  const U32 barriers = stages + kOffsetBarriers, fullX = barriers + 16 * kStages, tiles = stages + kOffsetTiles;
  const auto full = [&](int s) { return barriers + 16 * s; };
  const auto empty = [&](int s) { return barriers + 16 * s + 8; };
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrierInit(full(s), 1);
      barrierInit(empty(s), kWarps);
    }
    barrierInit(fullX, 1);
    barrierInitFence();
  }
  __syncthreads();

  SegmentWalker<true> walker(p.schedule);
  const int warp = threadIdx.x / 32;
  if (warp == kWarps) {
    // The producer thread. Weights go ahead of the kernel that quantizes x until the ring is full.
    if (!electOneLane()) return;
    if (p.isFirst != 0) waitForPreviousKernel();
    const auto loadX = [&](U32 target, int block, U32 barrier) {
      bulkLoad(target, p.activations + static_cast<I64>(block) * kPieceBytes, kPieceBytes, barrier);
    };
    const auto loadStepX = [&](int stage, int step) {
      const U32 target = stages + stage * kStageBytes + kStepBytesW;
      for (int i = 0; i < min(kSplitWarps, p.blocks - step * kSplitWarps); ++i) {
        loadX(target + i * kPieceBytes, step * kSplitWarps + i, full(stage));
      }
    };
    int waiting[kStages], filled = 0;  // the steps of the first stages, whose x comes later
    bool caughtUp = false;
    const auto catchUp = [&] {
      caughtUp = true;
      if constexpr (kActivations == 2) return;
      waitForPreviousKernel();
      if constexpr (kActivations == 1) {
        barrierArriveExpect(fullX, p.blocks * kPieceBytes);
        for (int block = 0; block < p.blocks; ++block) loadX(residentX + block * kPieceBytes, block, fullX);
      } else {
#pragma unroll
        for (int s = 0; s < kStages; ++s) {
          if (s < filled) loadStepX(s, waiting[s]);
        }
      }
    };
    RingPosition ring;
    const auto produce = [&](const Segment& segment) {
      for (int step = segment.begin; step < segment.end; ++step) {
        const int present = min(kSplitWarps, p.blocks - step * kSplitWarps);
        barrierWait(empty(ring.stage), ring.phase ^ 1);
        if constexpr (kTickets) storeShared(tiles + 4 * ring.stage, segment.tile);
        barrierArriveExpect(full(ring.stage), kStepBytesW + (kActivations == 0 ? present * kPieceBytes : 0));
        tmaLoad3d(stages + ring.stage * kStageBytes, &mapW, 0, segment.tile * kRows, step * kSplitWarps,
                  full(ring.stage), kEvictNormal);
        if (!caughtUp) {
#pragma unroll
          for (int s = 0; s < kStages; ++s) {
            if (s == filled) waiting[s] = step;
          }
          if (++filled == kStages) catchUp();
        } else if constexpr (kActivations == 0) {
          loadStepX(ring.stage, step);
        }
        ring.advance<kStages>();
      }
    };
    if constexpr (kTickets) {
      // The first tile is the block's own number. The kernel before zeroes the tickets, so it must have ended.
      for (U32 tile = blockIdx.x; tile < static_cast<U32>(p.schedule.tiles);) {
        produce({static_cast<int>(tile), 0, p.schedule.blocks});
        if (!caughtUp) catchUp();
        tile = gridDim.x + atomicAdd(p.counters, 1u);
      }
      barrierWait(empty(ring.stage), ring.phase ^ 1);
      storeShared(tiles + 4 * ring.stage, ~0u);
      barrierArrive(full(ring.stage));
    } else {
      for (Segment segment; walker.next(p.schedule, segment);) produce(segment);
      if (!caughtUp) catchUp();
    }
    return;
  }

  // Consumers.
  const int rowWarp = warp / kSplitWarps, splitWarp = warp % kSplitWarps;
  if constexpr (kActivations == 2) {
    quantizeResident(p, base + kOffsetX, warp);
    namedBarrier(1 + kRowWarps, kWarps * 32);
  } else {
    waitForPreviousKernel();
    if constexpr (kActivations == 1) barrierWait(fullX, 0);
  }
  const U32 rowOffset = (splitWarp * kRows + rowWarp * 16 + threadIdx.x % 32 / 4) * kBlockBytes;
  RingPosition ring;
  U32 parity = 0;
  const auto consume = [&](const Segment& segment) {
    float out[kTokenGroups][4] = {};
    for (int step = segment.begin; step < segment.end; ++step) {
      const U32 stage = stages + ring.stage * kStageBytes;
      const int block = step * kSplitWarps + splitWarp;
      barrierWait(full(ring.stage), ring.phase);
      if (block < p.blocks) {
        accumulateBlock(
            out, stage + rowOffset,
            kActivations == 0 ? stage + kStepBytesW + splitWarp * kPieceBytes : residentX + block * kPieceBytes);
      }
      fenceAsyncShared();  // the copy engine fills the stage again: every load from it has arrived
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrierArrive(empty(ring.stage));
      ring.advance<kStages>();
    }
    if constexpr (kSplitWarps > 1) {
      const bool holdsSum = addUpWarps(sums + parity * kSumBytes, rowWarp, splitWarp, out);
      parity ^= 1;
      if (!holdsSum) return;
    }
    if (segment.isWhole(p.schedule) || addUpParts(p, rowWarp, segment.tile, out)) {
      storeRows(p, segment.tile * kRows + rowWarp * 16, out);
    }
  };
  if constexpr (kTickets) {
    while (true) {
      barrierWait(full(ring.stage), ring.phase);
      const int tile = __shfl_sync(~0u, static_cast<int>(loadShared(tiles + 4 * ring.stage)), 0);
      if (__any_sync(~0u, tile < 0)) break;
      consume({tile, 0, p.schedule.blocks});
    }
  } else {
    for (Segment segment; walker.nextUniform(p.schedule, segment);) consume(segment);
  }
}
