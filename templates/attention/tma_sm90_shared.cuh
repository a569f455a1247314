// attention.tma_sm90: what its parts share: arguments, pieces of work, derived constants and the shared memory.
// The parameters (kHeadDim, kTileM, ...) are explained in tma_sm90.cu.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

// Strides in elements.
struct Params {
  void* out;         // BF16 [b, hq, lq, d]
  float* lse;        // FP32 [b, hq, lq], where kLogSumExp
  const int* kvLen;  // int32 [b], clamped to [0, capacity]; null: capacity
  int* control;  // dynamic: [0] number of tiles drawn; stream-K: a flag per slot, CTA of a cluster and warpgroup. Zero
  float4* partials;  // stream-K: a slot of kSlotFloat4 per flag
  I64 outBatchStride, outHeadStride, outRowStride;
  int batch, qHeads, kvHeads, qLen, capacity;
  int rowTiles;       // tiles of one head: ceil(qLen / kRowsPerHead)
  int sectionGroups;  // head groups whose tiles are interleaved, so that their K and V stay in L2
  float scaleLog2;    // scale * log2(e)
};

constexpr int kStatic = 0, kDynamic = 1, kStreamK = 2;  // kSchedule

constexpr int kWarpgroups = kTileM / 64;  // consumers
constexpr int kThreads = (kWarpgroups + 1) * 128;
constexpr int kRowsPerHead = kTileM / kPackHeads;
constexpr int kGroupHeads = kPackHeads * kCluster;     // query heads that a cluster works on at once
constexpr int kChunks = kHeadDim / 64;                 // spans of 128 bytes in a row
constexpr int kQBytes = kTileM * kHeadDim * 2;         // bytes of a Q tile
constexpr int kKvBytes = kTileN * kHeadDim * 2;        // bytes of a K or V block
constexpr int kSlotFloat4 = (kHeadDim / 8 + 1) * 128;  // float4 of a warpgroup's partial: O, then maxima and sums
constexpr int kMailSlots = 8;

// setmaxnreg only moves registers within what the CTA got at launch: 65536 / kThreads, rounded down to 8, per thread.
constexpr int kProducerRegisters = kWarpgroups == 2 ? 40 : 32;
constexpr int kConsumerRegisters = kWarpgroups == 2 ? 232 : 160;

static_assert(kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256, "O must be one wgmma wide");
static_assert(kWarpgroups == 2 || kWarpgroups == 3, "registers suffice for two or three consumer warpgroups");
static_assert(kTileM % 64 == 0 && kRowsPerHead % 16 == 0, "a warp's 16 rows belong to one head");
static_assert(kTileN % 16 == 0 && kTileN / kCluster % 8 == 0, "a CTA's share of a block is whole swizzle atoms");
static_assert(kProducerRegisters + kConsumerRegisters * kWarpgroups <= 65536 / kThreads / 8 * 8 * (kWarpgroups + 1),
              "the register pool must suffice");

// A row tile, or a range of its key blocks: first, first - 1, ..., first - count + 1.
struct Work {
  int tile;   // rows [tile * kRowsPerHead, + kRowsPerHead) of each head of the group; negative ends the stream
  int group;  // head group: query heads from group * kGroupHeads on, counted over all batch entries
  int first, count;
  int peers;  // 0: a whole tile; positive: add the partials in slots [slot, slot + peers); kPartial: leave one in
              // `slot`
  int slot;
  int kvLen;
};
constexpr int kPartial = -1;

// Why nothing is overwritten before all have read it. A product is one operation of a warpgroup's four warps: when one
// of them sees it finished, all have passed their waits and all operands have been read. So one thread may speak for
// its warpgroup at `empty`.
//   q, k, v  `empty` counts the warpgroups that read them (K and V: of all CTAs of the cluster), each behind its last
//            product from them; where no product reads them (blocks passed on), behind a barrier of the warpgroup
//   v        zeros in its tail: each thread's proxy fence and a barrier of the warpgroup come before the product, hence
//            before `empty`; all warpgroups write the same
//   ring     ordinary loads, a barrier of the warpgroup, `ringEmpty`, ordinary stores: one proxy, so arrivals suffice
//   mail     a number has decided about loads that ended kMailSlots - kStages - 1 tiles before its slot is rewritten
struct alignas(1024) Shared {
  U8 q[kQStages][kQBytes];
  U8 k[kStages][kKvBytes];
  U8 v[kStages][kKvBytes];
  Work ring[2];  // the producer's messages to the consumers
  U64 ringFull[2], ringEmpty[2];
  U64 qFull[kQStages], qEmpty[kQStages];
  U64 kFull[kStages], kEmpty[kStages], vFull[kStages], vEmpty[kStages];
  // Tile numbers that rank 0 of a cluster draws for the others.
  // NOTE: the slots need no `empty` barrier: multicast keeps the ranks within kStages + 1 tiles of each other.
  U64 mailFull[kMailSlots];
  int mail[kMailSlots];
};
static_assert(kStages + 1 < kMailSlots, "mail slots must not be overrun");

// Bytes of dynamic shared memory: the base is only 16-byte aligned.
constexpr int kSharedBytes = sizeof(Shared) + 1024;

__device__ __forceinline__ void initializeBarriers(Shared& shared) {
  const auto initialize = [](U64* barriers, int count, int arrivals) {
    for (int i = 0; i < count; ++i) barrierInit(sharedAddress(&barriers[i]), arrivals);
  };
  initialize(shared.ringFull, 2, 1);
  initialize(shared.ringEmpty, 2, kWarpgroups);
  initialize(shared.qFull, kQStages, 1);
  initialize(shared.qEmpty, kQStages, kWarpgroups);
  initialize(shared.kFull, kStages, 1);
  initialize(shared.kEmpty, kStages, kWarpgroups * kCluster);
  initialize(shared.vFull, kStages, 1);
  initialize(shared.vEmpty, kStages, kWarpgroups * kCluster);
  initialize(shared.mailFull, kMailSlots, 1);
  barrierInitFence();
}

}  // namespace tilewright
