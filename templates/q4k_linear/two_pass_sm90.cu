// out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) on Hopper's tensor cores, W expanded to 8 bits by a pass before
// (expand.cu): in the same call, or once, if the caller keeps it.
//
// The product is fused_sm90.cu's, transposed and with the same operands, scales, outliers, splits and epilogue, but
// both operands of wgmma lie in shared memory:
//
//   producer warp 0   128 bytes of k of every row of W    \  one ring of stages, both with the
//   producer warp 1   128 bytes of k of every token of x  /  128-byte swizzle, one barrier for both
//   consumers         64 rows each: [products of a stage, asynchronous][wait for the stage before, give it back]
//
// No instruction is spent on conversion, which bounds the fused kernel where tiles have few tokens; for that W
// takes 1.8 times as many bytes. Tiles higher than 128 rows share a token tile among more consumers, for both operands
// now cross from L2 in 8 bits: 256 rows and 128 tokens need as much as 128 and 256.
#include "templates/common/mbarrier.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/q4k_linear/fused_sm90_activations.cuh"
#include "templates/q4k_linear/fused_sm90_finish.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"
#include "templates/q4k_linear/fused_sm90_outliers.cuh"

static_assert(kExpanded == 1, "W comes in 8 bits");

namespace tilewright {

/// One thread: 128 bytes of k of every row of the tile per stage. Rows past n are read as zeros.
__device__ __forceinline__ void produceExpanded(const FusedArguments& p, const TensorMapParameter& map,
                                                const SharedView& shared) {
  if (p.isFirst != 0) waitForPreviousKernel();
  TileWalker walker(p.schedule);
  RingPosition ring;
  MaskReader masks(shared);
  for (Segment segment; walker.next(p.schedule, segment);) {
    const int row = segment.tile / p.schedule.tokenTiles * kRows;
    visitBlocks(segment, masks, [&](int block, U32 chunks, int, bool) {
#pragma unroll 1
      for (int piece = 0; piece < kStagesPerBlock; ++piece) {
        const U32 full = shared.fullX(ring.stage);
        const bool isUsed = isStageUsed(chunks, piece);
        barrierWait(shared.emptyX(ring.stage), ring.phase ^ 1);
        barrierArriveExpect(full, isUsed ? kBytesW : 0);
        if (isUsed) {
          const int k = (block * kStagesPerBlock + piece) * kStageK;
          tmaLoad2d(shared.w(ring.stage), &map, k, row, full, kEvictNormal);
        }
        ring.advance<kStagesX>();
      }
    });
  }
}

template <int kCount>
__device__ __forceinline__ void multiply(Accumulator (&d)[kCount], U64 w, U64 x) {
  if constexpr (kIsS8)
    wgmmaS8(d, w, x, 1);
  else
    wgmmaE4m3(d, w, x, 1);
}

__device__ __forceinline__ void consumeExpanded(const FusedArguments& p, const TensorMapParameter& mapOut,
                                                const SharedView& shared, int warpgroup) {
  TileWalker walker(p.schedule);
  waitForPreviousKernel();
  RingPosition ring;
  MaskReader masks(shared);
  // NOTE: through a shuffle, so that the compiler sees it is uniform and keeps descriptors in uniform registers.
  const int firstRow = __shfl_sync(~0u, warpgroup, 0) * 64;
  const U64 x0 = wgmmaDescriptor128(shared.x(0)), w0 = wgmmaDescriptor128(shared.w(0) + firstRow * 128);
  Accumulator accumulators[kTokens / 2];

  // The products of chunk i of the stage at `ring`.
  const auto multiplyChunk = [&](int i) {
    const U64 w = w0 + ring.stage * (kBytesW / 16) + i * 4, x = x0 + ring.stage * (kBytesX / 16) + i * 4;
#pragma unroll
    for (int q = 0; q < kProductsPerChunk; ++q) multiply(accumulators, w + 2 * q, x + 2 * q);
  };

  for (Segment segment; walker.nextUniform(p.schedule, segment);) {
    const int row = segment.tile / p.schedule.tokenTiles * kRows + warpgroup * 64;
    const int token = segment.tile % p.schedule.tokenTiles * kTokens;
    // NOTE: zeros, not a first product that ignores the accumulators (see fused_sm90_consumer.cuh).
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) accumulators[i] = 0;
    // What the end of the tile needs is on its way while the products run.
    const RowFactors factors(p, row);
    if (threadIdx.x % 128 < kTokens / 32) prefetchL1(p.tokenScales + token + threadIdx.x % 128 * 32);

    int last = 0;  // the stage before
    const int stages = (segment.end - segment.begin) * kStagesPerBlock;
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      barrierWait(shared.fullX(ring.stage), ring.phase);
      wgmmaFence();
#pragma unroll
      for (int i = 0; i < kChunksPerStage; ++i) multiplyChunk(i);
      wgmmaCommit();
      wgmmaWait<1>();
      if (s > 0) releaseActivations(shared, last);
      last = ring.stage;
      ring.advance<kStagesX>();
    }
    wgmmaWait<0>();
    pinRegisters(accumulators);
    releaseActivations(shared, last);

    // Once more with the outliers' upper bits?
    if constexpr (kIsS8) {
      const U32 words = masks.next();
      const int first = segment.begin / kWordBlocks;
      U64 any = 0;
      for (int word = first; word * kWordBlocks < segment.end; ++word) any |= loadMask(words, word - first);
      if (__any_sync(~0u, any != 0)) {
        toUpperUnits(accumulators);
#pragma unroll 1
        for (int word = first; word * kWordBlocks < segment.end; ++word) {
          U64 mask = loadMask(words, word - first);
#pragma unroll 1
          while (__any_sync(~0u, mask != 0)) {
            int block;
            const U32 chunks = __shfl_sync(~0u, takeBlock(mask, word, block), 0);
#pragma unroll
            for (int piece = 0; piece < kStagesPerBlock; ++piece) {
              barrierWait(shared.fullX(ring.stage), ring.phase);
#pragma unroll
              for (int i = 0; i < kChunksPerStage; ++i) {
                if (chunks >> (piece * kChunksPerStage + i) & 1) {
                  wgmmaFence();
                  multiplyChunk(i);
                  wgmmaCommit();
                }
                wgmmaWait<0>();
              }
              releaseActivations(shared, ring.stage);
              ring.advance<kStagesX>();
            }
          }
        }
        pinRegisters(accumulators);
        fromUpperUnits(accumulators);
      }
    }
    finishSegment(p, mapOut, shared, warpgroup, segment, row, token, accumulators, [&] { return factors; });
  }
  if (threadIdx.x % 128 == 0) tmaStoreWaitAll();
}

}  // namespace tilewright

using namespace tilewright;

extern "C" __global__ void __launch_bounds__(kLaunchBound, 1)
    q4kLinearTwoPass(const __grid_constant__ TensorMapParameter mapW, const __grid_constant__ TensorMapParameter mapX,
                     const __grid_constant__ TensorMapParameter mapOut, const FusedArguments p) {
  extern __shared__ U8 dynamic[];
  const SharedView shared{(sharedAddress(dynamic) + 1023) & ~1023u};

  // Initialize the barriers; fetch the tensor maps.
  if (threadIdx.x == 0) {
    tmaPrefetchMap(&mapW);
    tmaPrefetchMap(&mapX);
    tmaPrefetchMap(&mapOut);
    for (int s = 0; s < kStagesX; ++s) {
      barrierInit(shared.fullX(s), 2);
      barrierInit(shared.emptyX(s), kWarpgroups * 4);
    }
    initCommonBarriers(shared);
    barrierInitFence();
  }
  __syncthreads();
  const bool inCluster = joinCluster(p);

  // Part ways.
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == kWarpgroups) {
    shrinkRegisters<kProducerRegisters>();
    const int warp = threadIdx.x / 32 % 4;
    if (warp == 0) {
      if (electOneLane()) produceExpanded(p, mapW, shared);
    } else if (warp == 1) {
      produceActivations(p, mapX, shared);
    }
    if (inCluster) clusterWait();
  } else {
    growRegisters<kConsumerRegisters>();
    if (inCluster) clusterWait();  // the other blocks' barriers are initialized
    consumeExpanded(p, mapOut, shared, warpgroup);
  }
}
