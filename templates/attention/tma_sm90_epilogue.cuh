// attention.tma_sm90: the end of a piece of work: the output, or a partial in the workspace, or the sum of partials.
//
// A partial is O unnormalized, the reference maxima and the row sums, in the registers' own order: the warpgroup of the
// same number in the owner's CTA has the same layout. The flag that announces it is set by a release after a barrier of
// the warpgroup, and waited for with acquires; owners wait for CTAs that never wait themselves, so all CTAs must be
// resident (a cooperative launch), and nothing more.
#pragma once

#include "templates/attention/online_softmax.cuh"
#include "templates/attention/tma_sm90_shared.cuh"
#include "templates/common/warp_control.cuh"

namespace tilewright {

constexpr int kAccumulators = kHeadDim / 2;  // of O, per thread

// Index of a warpgroup's partial, and of its flag.
__device__ __forceinline__ I64 partialIndex(int slot, int rank, int warpgroup) {
  return (static_cast<I64>(slot) * kCluster + rank) * kWarpgroups + warpgroup;
}

__device__ __forceinline__ void storePartial(const Params& p, const float (&o)[kAccumulators], const SoftmaxRows& rows,
                                             I64 index, int barrier) {
  const int thread = threadIdx.x % 128;
  float4* slot = p.partials + index * kSlotFloat4 + thread;
#pragma unroll
  for (int i = 0; i < kAccumulators / 4; ++i) {
    __stcg(&slot[i * 128], float4{o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3]});
  }
  __stcg(&slot[kAccumulators / 4 * 128], float4{rows.max[0], rows.max[1], rows.sum[0], rows.sum[1]});
  __threadfence();
  namedBarrier(barrier, 128);
  if (thread == 0) storeRelease(&p.control[index], 1);
}

__device__ __forceinline__ void addPartial(const Params& p, float (&o)[kAccumulators], SoftmaxRows& rows, I64 index) {
  while (loadAcquire(&p.control[index]) == 0) {
  }
  const float4* slot = p.partials + index * kSlotFloat4 + threadIdx.x % 128;
  const float4 stats = __ldcg(&slot[kAccumulators / 4 * 128]);
  float ours[2], theirs[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float theirMax = r == 0 ? stats.x : stats.y, theirSum = r == 0 ? stats.z : stats.w;
    const float top = fmaxf(rows.max[r], theirMax), finite = top == -kInfinity ? 0.0f : top;
    ours[r] = exp2Fast((rows.max[r] - finite) * p.scaleLog2);
    theirs[r] = exp2Fast((theirMax - finite) * p.scaleLog2);
    rows.max[r] = top;
    rows.sum[r] = rows.sum[r] * ours[r] + theirSum * theirs[r];
  }
#pragma unroll
  for (int i = 0; i < kAccumulators / 4; ++i) {
    const float4 their = __ldcg(&slot[i * 128]);
    o[4 * i] = o[4 * i] * ours[0] + their.x * theirs[0];
    o[4 * i + 1] = o[4 * i + 1] * ours[0] + their.y * theirs[0];
    o[4 * i + 2] = o[4 * i + 2] * ours[1] + their.z * theirs[1];
    o[4 * i + 3] = o[4 * i + 3] * ours[1] + their.w * theirs[1];
  }
}

// Four words of each of a quad's threads, transposed: thread t of the quad gets word t of threads 0 to 3.
__device__ __forceinline__ uint4 transposeQuad(const U32 (&x)[4]) {
  const int t = threadIdx.x % 4;
  const bool odd = t & 1, upper = t & 2;
  // Exchange halves with t ^ 2: then (y0, y1) are words (t & 2) + {0, 1} of this thread, (y2, y3) those of t ^ 2.
  const U32 y0 = upper ? x[2] : x[0], y1 = upper ? x[3] : x[1];
  const U32 y2 = __shfl_xor_sync(kFullWarp, upper ? x[0] : x[2], 2);
  const U32 y3 = __shfl_xor_sync(kFullWarp, upper ? x[1] : x[3], 2);
  // Exchange single words with t ^ 1: word t of threads t, t ^ 1, t ^ 2 and t ^ 3.
  const U32 own = odd ? y1 : y0, across = odd ? y3 : y2;
  const U32 own1 = __shfl_xor_sync(kFullWarp, odd ? y0 : y1, 1);
  const U32 across1 = __shfl_xor_sync(kFullWarp, odd ? y2 : y3, 1);
  const U32 near0 = odd ? own1 : own, near1 = odd ? own : own1;
  const U32 far0 = odd ? across1 : across, far1 = odd ? across : across1;
  return upper ? uint4{far0, far1, near0, near1} : uint4{near0, near1, far0, far1};
}

// O / sum and the log-sum-exp of rows `row` and `row` + 8 of query head `head` (counted over all batch entries).
__device__ __forceinline__ void storeRows(const Params& p, const float (&o)[kAccumulators], const SoftmaxRows& rows,
                                          int head, int row) {
  auto* out = static_cast<U16*>(p.out) + head / p.qHeads * p.outBatchStride + head % p.qHeads * p.outHeadStride;
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int m = row + r * 8;
    const float inverse = rows.sum[r] == 0.0f ? 0.0f : 1.0f / rows.sum[r];
    U16* line = out + m * p.outRowStride + t * 8;
#pragma unroll
    for (int j = 0; j < kHeadDim / 32; ++j) {
      U32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (4 * j + i) * 4 + 2 * r;
        words[i] = packBf16(o[at] * inverse, o[at + 1] * inverse);
      }
      // Thread t of a quad stores columns 32 j + 8 t to + 7: 16 bytes instead of four times 4.
      const uint4 columns = transposeQuad(words);
      if (m < p.qLen) *reinterpret_cast<uint4*>(line + j * 32) = columns;
    }
    if constexpr (kLogSumExp) {
      const float lse = logSumExp(rows.max[r], rows.sum[r], p.scaleLog2);
      if (t == 0 && m < p.qLen) p.lse[static_cast<I64>(head) * p.qLen + m] = lse;
    }
  }
}

// What a warpgroup does with its 64 rows when the last product of a piece of work is in.
__device__ __forceinline__ void finishWork(const Params& p, const Work& work, float (&o)[kAccumulators],
                                           SoftmaxRows& rows, int head, int row, int rank, int warpgroup, int barrier) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(kFullWarp, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(kFullWarp, rows.sum[r], 2);
  }
  if constexpr (kSchedule == kStreamK) {
    if (work.peers == kPartial) {
      storePartial(p, o, rows, partialIndex(work.slot, rank, warpgroup), barrier);
      return;
    }
    for (int i = 0; i < work.peers; ++i) addPartial(p, o, rows, partialIndex(work.slot + i, rank, warpgroup));
  }
  storeRows(p, o, rows, head, row);
}

}  // namespace tilewright
