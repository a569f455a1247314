// Parameters, derived constants, arguments and shared memory of fused_sm90.cu and two_pass_sm90.cu, which explain them.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/types.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/split_schedule.cuh"

// Parameters:
//   kArithmetic   0 s8, 1 e4m3, 2 bf16
//   kScaleK       k per activation scale and chain of accumulation: 0 all that a segment has; 256 or 4096 (not bf16)
//   kTokens       tokens of a tile
//   kWarpgroups   consumer warpgroups, each with 64 rows
//   kExpanded     0: W comes in super-blocks; 1: as 8-bit operands, in stages of the same k as those of x (not bf16)
//   kStagesW      super-blocks in the W ring; kExpanded: as many as kStagesX
//   kStagesX      128-byte pieces in the x ring
//   kCluster      blocks of a cluster that share a split tile; 1: parts go through the workspace
//   kOutBuffers   buffers of each warpgroup for its stores of out: 1 or 2
//   kTableWarps   warps that unpack factors of super-blocks: 2 beside the producers, 4 in a warpgroup of their own; 0
//                 with kExpanded
//   kSpareThreads threads whose registers are left to a block beside this one, which quantizes x
//   kSharedBytes  shared memory of a block, as the host computes it
//   kRagged       1: n is no multiple of 8, so the last rows are stored without the copy engine
static_assert(kArithmetic >= 0 && kArithmetic <= 2, "s8, e4m3 or bf16");
static_assert(kScaleK == 0 || kArithmetic != 2, "bf16 has no scales");
static_assert(kScaleK == 0 || kScaleK == 256 || kScaleK == 4096, "a word of flags has those of whole groups");
static_assert(kTokens % 16 == 0 && kTokens <= 256, "wgmma's N; activation stages keep the swizzle's 1024 bytes");
static_assert(kWarpgroups >= 2 && kWarpgroups <= 5, "register budgets exist for 2 to 5 consumer warpgroups");
static_assert(kExpanded == 0 || kExpanded == 1, "W in super-blocks or in bytes");
static_assert(kExpanded == 1 ? kTableWarps == 0 : kTableWarps == 2 || kTableWarps == 4, "who unpacks factors");
static_assert(kOutBuffers == 1 || kOutBuffers == 2, "store buffers of a warpgroup");
static_assert(kExpanded == 0 || (kArithmetic != 2 && kScaleK == 0 && kStagesW == kStagesX),
              "expanded weights are 8-bit operands with one scale a row, in the stages of x");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr bool kIsBf16 = kArithmetic == 2;
constexpr bool kPromotes = kScaleK != 0;
constexpr bool kSumsAreIntegers = kIsS8 && !kPromotes;                 // what a tile ends with, else fp32
constexpr int kGroupBlocks = kPromotes ? kScaleK / kBlockWeights : 1;  // super-blocks of a scale, with kPromotes

constexpr int kRows = kWarpgroups * 64;
constexpr bool kHasTableWarpgroup = kTableWarps == 4;
constexpr int kThreads = (kWarpgroups + 1 + kHasTableWarpgroup) * 128;
constexpr int kChunkK = 64;                  // k of one 32-byte piece of nibbles
constexpr int kStageK = kIsBf16 ? 64 : 128;  // k of an x stage
constexpr int kStagesPerBlock = kBlockWeights / kStageK;
constexpr int kChunksPerStage = kStageK / kChunkK;
constexpr int kProductsPerChunk = kIsBf16 ? 4 : 2;  // wgmma of 32 bytes of k

// Registers of a thread at launch and after setmaxnreg, which deals out what the block got at launch and no more.
constexpr int kLaunchBound = kThreads + kSpareThreads;
constexpr int kLaunchRegisters = 65536 / kLaunchBound / 8 * 8;
constexpr int kTableRegisters = kHasTableWarpgroup ? 48 : 0;
constexpr int kProducerRegisters = kSpareThreads > 0                       ? 48
                                   : kHasTableWarpgroup || kWarpgroups < 4 ? 56
                                   : kWarpgroups == 4                      ? 64
                                                                           : 72;
constexpr int kConsumerRegisters =
    kSpareThreads > 0
        ? 168
        : (kThreads / 128 * kLaunchRegisters - kTableRegisters - kProducerRegisters) / kWarpgroups / 8 * 8;
static_assert(kWarpgroups * kConsumerRegisters + kProducerRegisters + kTableRegisters <=
                  kThreads / 128 * kLaunchRegisters,
              "setmaxnreg waits forever for registers that the block does not have");
static_assert(kConsumerRegisters >= kLaunchRegisters && kProducerRegisters <= kLaunchRegisters &&
                  kTableRegisters <= kLaunchRegisters,
              "consumers grow, the others shrink");

constexpr int kUnitBytes = 64 * kBlockBytes;                                 // one copy of super-blocks
constexpr int kTableEntryBytes = kExpanded ? 0 : kIsBf16 ? 16 : 8;           // factors of two sub-blocks of a row
constexpr int kPartTokens = kTokens / kCluster;                              // of a split tile, that one block finishes
constexpr int kOutTokens = kPartTokens % 32 == 0 && kTokens > 64 ? 32 : 16;  // tokens of one store
static_assert(kPartTokens % kOutTokens == 0, "a block of a cluster stores whole boxes");

// A row's bound becomes this value of the 8-bit operand (fused_sm90_convert.cuh says why not 127).
constexpr float kTopWeight = kTopOperand<kIsS8>;

// Five consumer warpgroups beside one for the table leave no registers to keep track of split tiles.
constexpr bool kHasSplits = !(kHasTableWarpgroup && kWarpgroups == 5);
static_assert(kHasSplits || kCluster == 1, "a cluster shares split tiles");
using TileWalker = SegmentWalker<kHasSplits>;

using Accumulator = Conditional<kIsS8, int, float>;

struct FusedArguments {
  const float* rowBounds;    // [n padded], at least every |w| of the row; unused with bf16
  const float* rowInverses;  // [n padded], the inverses, or 0; unused with bf16
  const float* tokenScales;  // [m padded], or [k / kScaleK rounded up, m padded]; unused with bf16
  const U8* outlierTokens;   // [m padded], not 0 for a token that may have outliers; used with s8
  const U64* outlierChunks;  // [blocks / 16 rounded up, m padded], see fused_sm90_outliers.cuh; used with s8
  const U16* bias;           // BF16 [n], or null
  U16* out;                  // BF16 [m, n], rows of outStride elements
  I64 outStride;
  float4* partials;  // [slot, warpgroup, vector, thread]; unused without split tiles
  U32* counters;     // [split tile, warpgroup], zero; unused without split tiles
  I32 m, n, mPadded;
  I32 isFirst;  // 1: the kernel before this one may be the caller's, who may have made W or row bounds with it
  SplitSchedule schedule;
};

// Shared memory, in this order (bytes from a base that is a multiple of 1024):
constexpr int kBytesX = kTokens * 128;                            // one x stage
constexpr int kBytesOut = roundUp(kOutTokens * 128, 1024);        // one warpgroup's store buffer
constexpr int kBytesW = kRows * (kExpanded ? 128 : kBlockBytes);  // one W stage
constexpr int kBytesTable = 4 * kRows * kTableEntryBytes;         // of one W stage
constexpr int kBytesScales = kPromotes ? kTokens * 4 : 0;         // token scales, of one x stage
constexpr int kMaskWords = kPromotes ? 1 : kExpanded ? 8 : 4;     // of a mask: what one scale a token serves at most
constexpr int kMaskSlots = kIsS8 ? 8 : 0;                         // masks of super-blocks with outliers
constexpr int kOffsetOut = kStagesX * kBytesX;
constexpr int kOffsetW = kOffsetOut + kWarpgroups * kOutBuffers * kBytesOut;
constexpr int kOffsetTable = kOffsetW + kStagesW * kBytesW;
constexpr int kOffsetScales = kOffsetTable + kStagesW * kBytesTable;
constexpr int kOffsetMasks = kOffsetScales + kStagesX * kBytesScales;
constexpr int kOffsetBarriers = kOffsetMasks + 8 * kMaskWords * kMaskSlots;
constexpr int kBarriersW = kExpanded ? 0 : 3 * kStagesW;  // expanded weights share those of x
constexpr int kRingBarriers = kBarriersW + 2 * kStagesX + kMaskSlots;
constexpr int kBarriers = kRingBarriers + (kCluster > 1 ? 1 + kWarpgroups : 0);
constexpr int kDeviceSharedBytes = kOffsetBarriers + 8 * kBarriers + 1024;  // 1024: alignment of the base
static_assert(!kIsS8 || kStagesX / kStagesPerBlock + 4 <= kMaskSlots, "a mask is rewritten only when all have read it");
static_assert(kDeviceSharedBytes == kSharedBytes, "shared memory as the host computes it");
static_assert(kSharedBytes <= 232448, "shared memory of a block");

// Parts of the split tile that other blocks of the cluster send; they lie in the x ring, empty after the last segment.
constexpr int kBytesPart = 128 * kPartTokens / 2 * 4;  // of one warpgroup's sums
static_assert((kCluster - 1) * kWarpgroups * kBytesPart <= kStagesX * kBytesX, "received parts fit in the x ring");

/// Addresses in shared memory.
struct SharedView {
  U32 base;

  __device__ __forceinline__ U32 x(int s) const { return base + s * kBytesX; }
  __device__ __forceinline__ U32 out(int warpgroup) const {
    return base + kOffsetOut + warpgroup * kOutBuffers * kBytesOut;
  }
  __device__ __forceinline__ U32 w(int s) const { return base + kOffsetW + s * kBytesW; }
  __device__ __forceinline__ U32 table(int s) const { return base + kOffsetTable + s * kBytesTable; }
  __device__ __forceinline__ U32 tokenScales(int s) const { return base + kOffsetScales + s * kBytesScales; }
  __device__ __forceinline__ U32 fullW(int s) const { return base + kOffsetBarriers + 8 * s; }
  __device__ __forceinline__ U32 emptyW(int s) const { return fullW(kStagesW + s); }
  __device__ __forceinline__ U32 fullTable(int s) const { return fullW(2 * kStagesW + s); }
  __device__ __forceinline__ U32 fullX(int s) const { return fullW(kBarriersW + s); }
  __device__ __forceinline__ U32 emptyX(int s) const { return fullW(kBarriersW + kStagesX + s); }
  __device__ __forceinline__ U32 mask(int s) const { return base + kOffsetMasks + 8 * kMaskWords * s; }
  __device__ __forceinline__ U32 fullMask(int s) const { return fullW(kBarriersW + 2 * kStagesX + s); }
  /// The part of a warpgroup's sums that the `from`-th of the other blocks sent.
  __device__ __forceinline__ U32 part(int from, int warpgroup) const {
    return base + (from * kWarpgroups + warpgroup) * kBytesPart;
  }
  /// Completed once, for the split tile: the other blocks' products are done; a warpgroup's parts are here.
  __device__ __forceinline__ U32 othersDone() const { return fullW(kRingBarriers); }
  __device__ __forceinline__ U32 partsHere(int warpgroup) const { return fullW(kRingBarriers + 1 + warpgroup); }
};

/// Initializes the barriers of the masks of outliers and of a cluster's exchange.
__device__ __forceinline__ void initCommonBarriers(const SharedView& shared) {
  for (int s = 0; s < kMaskSlots; ++s) barrierInit(shared.fullMask(s), 1);
  if constexpr (kCluster > 1) {
    barrierInit(shared.othersDone(), (kCluster - 1) * kWarpgroups * 4);
    for (int u = 0; u < kWarpgroups; ++u) barrierInit(shared.partsHere(u), 1);
  }
}

/// Tells the cluster that this block's barriers are initialized; returns whether everyone must wait for the others'.
// NOTE: not without clusters, where the wait would need all of the block's threads at once.
__device__ __forceinline__ bool joinCluster(const FusedArguments& p) {
  const bool inCluster = kCluster > 1 && p.schedule.cluster > 0;
  if (inCluster) clusterArriveRelaxed();
  return inCluster;
}

/// The super-blocks of a segment that share a scale: all, or with kPromotes those of as many k around `block`.
__device__ __forceinline__ int groupBegin(int block, const Segment& segment) {
  if constexpr (!kPromotes) return segment.begin;
  return max(block / kGroupBlocks * kGroupBlocks, segment.begin);
}
__device__ __forceinline__ int groupEnd(int block, const Segment& segment) {
  if constexpr (!kPromotes) return segment.end;
  return min((block / kGroupBlocks + 1) * kGroupBlocks, segment.end);
}

/// The entry of a row of the tile and chunk c of a super-block in a stage's table.
__device__ __forceinline__ U32 tableOffset(int c, int row) {
  return (c * kRows + row) * kTableEntryBytes;
}

}  // namespace tilewright
