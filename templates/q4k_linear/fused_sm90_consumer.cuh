// The consumer warpgroups of fused_sm90.cu: 64 rows each, all tokens of the tile.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/q4k_linear/fused_sm90_activations.cuh"
#include "templates/q4k_linear/fused_sm90_convert.cuh"
#include "templates/q4k_linear/fused_sm90_finish.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"
#include "templates/q4k_linear/fused_sm90_outliers.cuh"

// Parameters:
//   kStepK    k between waits for products: 64, 128 or 256
//   kBuffers  sets of A registers
static_assert(kStepK == 64 || kStepK == 128 || kStepK == 256, "a step is 1, 2 or 4 chunks of 64 k");
static_assert(kBuffers == 1 || kBuffers == 2, "sets of A registers");
static_assert(kBuffers == 1 || kStepK < 256, "two buffers alternate within a super-block");
static_assert(kArithmetic != 2 || kBuffers == 1 || kStepK == 64,
              "the consumers give back one activation stage behind a double-buffered step: bf16 has 64 k in a stage");

namespace tilewright {

constexpr int kChunksPerStep = kStepK / kChunkK;
constexpr int kSteps = kBlockWeights / kStepK;  // of a super-block

/// This thread's two rows, 8 apart, in the W ring.
class WeightReader {
 public:
  __device__ __forceinline__ explicit WeightReader(const SharedView& shared) : shared_(shared) {}

  /// Before the first super-block of a tile.
  __device__ __forceinline__ void beginTile(int warpgroup) {
    // NOTE: computed anew for each tile, from a value that the compiler cannot move, so that no register holds them
    // while a split tile is added up.
    const int thread = opaqueThreadIndex(), lane = thread % 32, mine = thread / 32 % 4 * 16 + lane / 4;
    const int tileRow = warpgroup * 64 + mine;
    rowOffset_ = shared_.w(0) + tileRow * kBlockBytes;
    wordOffset_ = lane % 4 * (kIsBf16 ? 2 : 4);
    tableOffset_ = shared_.table(0) + tableOffset(0, tileRow);
  }

  __device__ __forceinline__ void open() {
    barrierWait(shared_.fullW(ring_.stage), ring_.phase);
    barrierWait(shared_.fullTable(ring_.stage), ring_.phase);
    piece_ = rowOffset_ + ring_.stage * kBytesW + wordOffset_;
    table_ = tableOffset_ + ring_.stage * kBytesTable;
  }

  /// Behind the products of its last fragments: only then have the loads from the stage, which the copy engine may
  /// fill again, all arrived.
  __device__ __forceinline__ void close() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrierArrive(shared_.emptyW(ring_.stage));
    ring_.advance<kStagesW>();
  }

  /// The fragments of a step of the open super-block.
  template <int kProducts>
  __device__ __forceinline__ void convert(U32 (&a)[kChunksPerStep][kProducts][4], int step) {
#pragma unroll
    for (int i = 0; i < kChunksPerStep; ++i) convertOne(a[i], step * kChunksPerStep + i);
  }

  /// The fragments of chunk c of the open super-block.
  template <int kProducts>
  __device__ __forceinline__ void convertOne(U32 (&a)[kProducts][4], int c) {
    if constexpr (kIsBf16) {
      float4 factors[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint4 v = loadShared4(table_ + tableOffset(c, 8 * r));
        factors[r] = {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
      }
      convertChunk(a, piece_, factors, c);
    } else {
      uint2 factors[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) factors[r] = loadShared2(table_ + tableOffset(c, 8 * r));
      convertChunk(a, constants_, piece_, factors, c);
    }
  }

 private:
  const SharedView& shared_;
  const ConvertConstants constants_;
  RingPosition ring_;
  U32 rowOffset_, wordOffset_, tableOffset_;
  U32 piece_, table_;
};

template <int kCount>
__device__ __forceinline__ void multiply(Accumulator (&d)[kCount], const U32 (&a)[4], U64 x) {
  if constexpr (kArithmetic == 0)
    wgmmaS8(d, a, x, 1);
  else if constexpr (kArithmetic == 1)
    wgmmaE4m3(d, a, x, 1);
  else
    wgmmaBf16(d, a, x, 1);
}

/// sums += a group's accumulators, each column with its token's scale; accumulators start anew.
template <int kCount>
__device__ __forceinline__ void promote(float (&sums)[kCount], Accumulator (&accumulators)[kTokens / 2], U32 scales) {
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    const float2 s = loadSharedFloat2(scales + (8 * j + 2 * (threadIdx.x % 4)) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float v = static_cast<float>(accumulators[4 * j + i]);
      sums[4 * j + i] = fmaf(v, i % 2 != 0 ? s.y : s.x, sums[4 * j + i]);
      accumulators[4 * j + i] = 0;
    }
  }
}

// Whether the stage of a pass's last activations is still held behind it: token scales ride with it, or, with two
// buffers, its products have only just ended.
constexpr bool kHoldsLast = kPromotes || kBuffers == 2;

/// The second pass over a group (fused_sm90_outliers.cuh), chunk by chunk. Gives the stage of the last activations, not
/// yet released.
// NOTE: votes, shuffles and waits stand where the compiler still sees that `ring` is uniform, as in
// SegmentWalker::nextUniform: else the first pass of what follows gets slower.
__device__ __forceinline__ int multiplyOutliers(const SharedView& shared, WeightReader& weights, RingPosition& ring,
                                                U64 descriptor0, U32 words, int begin, int end,
                                                U32 (&a)[kProductsPerChunk][4],
                                                Accumulator (&accumulators)[kTokens / 2]) {
  int held = -1;
#pragma unroll 1
  for (int word = begin / kWordBlocks; word * kWordBlocks < end; ++word) {
    U64 mask = loadMask(words, word - begin / kWordBlocks);
#pragma unroll 1
    while (__any_sync(~0u, mask != 0)) {
      int block;
      const U32 chunks = __shfl_sync(~0u, takeBlock(mask, word, block), 0);
      weights.open();
#pragma unroll
      for (int piece = 0; piece < kStagesPerBlock; ++piece) {
        barrierWait(shared.fullX(ring.stage), ring.phase);
#pragma unroll
        for (int i = 0; i < kChunksPerStage; ++i) {
          const int c = piece * kChunksPerStage + i;
          if (chunks >> c & 1) {
            weights.convertOne(a, c);
            const U64 x = descriptor0 + ring.stage * (kBytesX / 16) + i * 4;
            wgmmaFence();
#pragma unroll
            for (int q = 0; q < kProductsPerChunk; ++q) multiply(accumulators, a[q], x + 2 * q);
            wgmmaCommit();
          }
          wgmmaWait<0>();
        }
        if (held >= 0) releaseActivations(shared, held);
        held = ring.stage;
        ring.advance<kStagesX>();
      }
      weights.close();
    }
  }
  pinRegisters(accumulators);
  return held;
}

__device__ __forceinline__ void consume(const FusedArguments& p, const TensorMapParameter& mapOut,
                                        const SharedView& shared, int warpgroup) {
  TileWalker walker(p.schedule);
  waitForPreviousKernel();
  WeightReader weights(shared);
  RingPosition ring;  // of x
  MaskReader masks(shared);
  const U64 descriptor0 = wgmmaDescriptor128(shared.x(0));
  const auto release = [&](int stage) { releaseActivations(shared, stage); };

  Accumulator accumulators[kTokens / 2];
  float sums[kPromotes ? kTokens / 2 : 1];
  U32 a[kBuffers][kChunksPerStep][kProductsPerChunk][4];

  for (Segment segment; walker.nextUniform(p.schedule, segment);) {
    const int row = segment.tile / p.schedule.tokenTiles * kRows + warpgroup * 64;
    const int token = segment.tile % p.schedule.tokenTiles * kTokens;
    // NOTE: zeros, not a first product that ignores the accumulators: else the last segment's values stay alive in
    // them, and the assembler serializes the products (C7514).
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      if constexpr (kPromotes) sums[i] = 0.0f;
      accumulators[i] = 0;
    }
    weights.beginTile(warpgroup);

    // The k of a scale, or all of a segment that has one; then, with s8, its outliers.
#pragma unroll 1
    for (int begin = segment.begin;;) {
      // Multiplies the next `count` super-blocks; gives the stage of the last activations, with kHoldsLast not yet
      // released.
      const auto multiplyBlocks = [&](int count) {
        int lastStage = 0;
        if constexpr (kBuffers == 2) {
          weights.open();
          weights.convert(a[0], 0);
        }
#pragma unroll 1
        for (int block = 0; block < count; ++block) {
          RingPosition stages[kStagesPerBlock];
#pragma unroll
          for (int j = 0; j < kStagesPerBlock; ++j) {
            stages[j] = ring;
            ring.advance<kStagesX>();
          }
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            if constexpr (kBuffers == 1) {
              if (step == 0) weights.open();
              weights.convert(a[0], step);
            }

            // Multiply this step.
#pragma unroll
            for (int i = 0; i < kChunksPerStep; ++i) {
              const int c = step * kChunksPerStep + i;
              if (c % kChunksPerStage == 0) {
                barrierWait(shared.fullX(stages[c / kChunksPerStage].stage), stages[c / kChunksPerStage].phase);
              }
            }
            wgmmaFence();
#pragma unroll
            for (int i = 0; i < kChunksPerStep; ++i) {
              const int c = step * kChunksPerStep + i;
              const U64 x = descriptor0 + stages[c / kChunksPerStage].stage * (kBytesX / 16) + c % kChunksPerStage * 4;
#pragma unroll
              for (int q = 0; q < kProductsPerChunk; ++q) multiply(accumulators, a[step % kBuffers][i][q], x + 2 * q);
            }
            wgmmaCommit();

            if constexpr (kBuffers == 1) {
              if (step == kSteps - 1) weights.close();
              wgmmaWait<0>();
#pragma unroll
              for (int i = 0; i < kChunksPerStep; ++i) {
                const int c = step * kChunksPerStep + i;
                if (c % kChunksPerStage == kChunksPerStage - 1 && !(kPromotes && c == 3 && block + 1 == count)) {
                  release(stages[c / kChunksPerStage].stage);
                }
              }
            } else {
              // The step before is done: its registers and, after their last chunk, its activations are free.
              wgmmaWait<1>();
              if (step == 0) {
                if (block > 0) release(lastStage);
              } else {
#pragma unroll
                for (int i = 0; i < kChunksPerStep; ++i) {
                  const int c = (step - 1) * kChunksPerStep + i;
                  if (c % kChunksPerStage == kChunksPerStage - 1) release(stages[c / kChunksPerStage].stage);
                }
              }
              // Convert the next step.
              if (step + 1 < kSteps) {
                weights.convert(a[(step + 1) % 2], step + 1);
              } else {
                weights.close();
                if (block + 1 < count) {
                  weights.open();
                  weights.convert(a[0], 0);
                }
              }
            }
          }
          lastStage = stages[kStagesPerBlock - 1].stage;
        }
        wgmmaWait<0>();
        pinRegisters(accumulators);
        return lastStage;
      };
      int lastStage = multiplyBlocks(groupEnd(begin, segment) - begin);

      // Once more with the outliers' upper bits?
      if constexpr (kIsS8) {
        const U32 words = masks.next();
        const int end = groupEnd(begin, segment), first = begin / kWordBlocks;
        U64 any = 0;
        for (int word = first; word * kWordBlocks < end; ++word) any |= loadMask(words, word - first);
        if (__any_sync(~0u, any != 0)) {
          if constexpr (kHoldsLast) release(lastStage);
          toUpperUnits(accumulators);
          lastStage = multiplyOutliers(shared, weights, ring, descriptor0, words, begin, end, a[0][0], accumulators);
          fromUpperUnits(accumulators);
          if constexpr (!kHoldsLast) release(lastStage);
        }
      }
      if constexpr (kPromotes) {
        promote(sums, accumulators, shared.tokenScales(lastStage));
        fenceAsyncShared();  // the scales' loads may be under way, and the copy engine writes the next ones
        __syncwarp();
      }
      if constexpr (kHoldsLast) release(lastStage);
      begin = groupEnd(begin, segment);
      // NOTE: through a vote, as in SegmentWalker::nextUniform.
      if (!kPromotes || !__any_sync(~0u, begin < segment.end)) break;
    }

    // Finish the tile, or hand its part over.
    const auto factors = [&] { return RowFactors(p, row); };
    if constexpr (kPromotes)
      finishSegment(p, mapOut, shared, warpgroup, segment, row, token, sums, factors);
    else
      finishSegment(p, mapOut, shared, warpgroup, segment, row, token, accumulators, factors);
  }
  if (threadIdx.x % 128 == 0) tmaStoreWaitAll();
}

}  // namespace tilewright
