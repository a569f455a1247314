// What makes W ready in fused_sm90.cu: the warp that copies super-blocks into their ring, and those that unpack their
// factors into a table.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/fused_sm90_convert.cuh"
#include "templates/q4k_linear/fused_sm90_finish.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"
#include "templates/q4k_linear/fused_sm90_outliers.cuh"

namespace tilewright {

/// One thread: a super-block of every row of the tile per stage. Rows past n are read as zeros.
__device__ __forceinline__ void produceWeights(const FusedArguments& p, const TensorMapParameter& map,
                                               const SharedView& shared) {
  if (p.isFirst != 0) waitForPreviousKernel();
  TileWalker walker(p.schedule);
  RingPosition ring;
  MaskReader masks(shared);
  for (Segment segment; walker.next(p.schedule, segment);) {
    const int row = segment.tile / p.schedule.tokenTiles * kRows;
    visitBlocks(segment, masks, [&](int block, U32, int, bool) {
      const U32 full = shared.fullW(ring.stage);
      barrierWait(shared.emptyW(ring.stage), ring.phase ^ 1);
      barrierArriveExpect(full, kWarpgroups * kUnitBytes);
#pragma unroll
      for (int u = 0; u < kWarpgroups; ++u) {
        tmaLoad2d(shared.w(ring.stage) + u * kUnitBytes, &map, block * kBlockBytes, row + u * 64, full, kEvictNormal);
      }
      ring.advance<kStagesW>();
    });
  }
}

/// kTableWarps warps: the factors of every row and chunk of a super-block, in the form that the conversion takes.
__device__ __forceinline__ void produceTable(const FusedArguments& p, const SharedView& shared, int thread) {
  constexpr int kTableThreads = kTableWarps * 32, kThreadRows = ceilDiv(kRows, kTableThreads);
  if (p.isFirst != 0) waitForPreviousKernel();
  TileWalker walker(p.schedule);
  RingPosition ring;
  MaskReader masks(shared);
  for (Segment segment; walker.nextUniform(p.schedule, segment);) {
    float inverse[kThreadRows];
    const int row = segment.tile / p.schedule.tokenTiles * kRows;
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const int tileRow = i * kTableThreads + thread;
      if (kRows % kTableThreads != 0 && tileRow >= kRows) break;
      inverse[i] = kIsBf16 ? 1.0f : kTopWeight * __ldg(p.rowInverses + row + tileRow);
      RowFactors::prefetch(p, row + tileRow);
    }
    visitBlocks(segment, masks, [&](int, U32, int, bool) {
      barrierWait(shared.fullW(ring.stage), ring.phase);
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
        const int tileRow = i * kTableThreads + thread;
        if (kRows % kTableThreads != 0 && tileRow >= kRows) break;
        const BlockFactors f = unpackFactors(loadShared4(shared.w(ring.stage) + tileRow * kBlockBytes), inverse[i]);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const U32 entry = shared.table(ring.stage) + tableOffset(c, tileRow);
          if constexpr (kIsBf16) {
            const float4 v = factorsBf16(f, c);
            storeShared4(entry, __float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
          } else {
            const uint2 v = factorsHalf(f, c);
            storeShared2(entry, v.x, v.y);
          }
        }
      }
      __syncwarp();
      if (thread % 32 == 0) barrierArrive(shared.fullTable(ring.stage));
      ring.advance<kStagesW>();
    });
  }
}

}  // namespace tilewright
