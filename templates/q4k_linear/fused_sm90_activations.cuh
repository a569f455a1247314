// The ring of activations of fused_sm90.cu and two_pass_sm90.cu: the warp that fills it, and how a stage is given back.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"
#include "templates/q4k_linear/fused_sm90_outliers.cuh"

namespace tilewright {

/// Whether a stage holds a chunk that is multiplied, `chunks` being the super-block's bits. One that does not stays
/// empty but is passed on: positions in the ring do not depend on data.
__device__ __forceinline__ bool isStageUsed(U32 chunks, int piece) {
  constexpr U32 kPieceChunks = (1 << kChunksPerStage) - 1;
  return !kIsS8 || (chunks >> piece * kChunksPerStage & kPieceChunks) != 0;
}

/// One warp: 128 bytes of k of every token of the tile per stage. A group's scales ride with the last stage of a pass.
__device__ __forceinline__ void produceActivations(const FusedArguments& p, const TensorMapParameter& map,
                                                   const SharedView& shared) {
  waitForPreviousKernel();
  TileWalker walker(p.schedule);
  RingPosition ring;
  MaskReader masks(shared);
  MaskWriter writer;
  const bool isLeader = threadIdx.x % 32 == 0;
  for (Segment segment; walker.next(p.schedule, segment);) {
    const int token = segment.tile % p.schedule.tokenTiles * kTokens;
    visitBlocks(segment, masks, [&](int block, U32 chunks, int pass, bool isLast) {
#pragma unroll 1
      for (int piece = 0; piece < kStagesPerBlock; ++piece) {
        const U32 full = shared.fullX(ring.stage);
        const bool isUsed = isStageUsed(chunks, piece);
        const bool scales = kPromotes && isLast && piece == kStagesPerBlock - 1;
        barrierWait(shared.emptyX(ring.stage), ring.phase ^ 1);
        if (isLeader) {
          barrierArriveExpect(full, (isUsed ? kBytesX : 0) + (scales ? kBytesScales : 0));
          // The outliers' upper bits lie behind all tokens' lower ones.
          if (isUsed) {
            tmaLoad2d(shared.x(ring.stage), &map, (block * kStagesPerBlock + piece) * kStageK, token + pass * p.m, full,
                      kEvictLast);
          }
          if (scales) {
            const float* source = p.tokenScales + static_cast<I64>(block / kGroupBlocks) * p.mPadded + token;
            bulkLoad(shared.tokenScales(ring.stage), source, kBytesScales, full);
          }
        }
        ring.advance<kStagesX>();
      }
      // As soon as the ring is full, so that neither the first products wait for copies nor anyone for the mask.
      if constexpr (kIsS8) {
        const int begin = groupBegin(block, segment), end = groupEnd(block, segment);
        const bool isFull = block + 1 == min(begin + kStagesX / kStagesPerBlock, end);
        if (pass == 0 && isFull) writer.publish(p, shared, token, begin, end);
      }
    });
  }
}

/// A consumer warp's reads of a stage are over.
__device__ __forceinline__ void releaseActivations(const SharedView& shared, int stage) {
  if (threadIdx.x % 32 == 0) barrierArrive(shared.emptyX(stage));
}

}  // namespace tilewright
