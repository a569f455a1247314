// The end of a tile in fused_sm90.cu and two_pass_sm90.cu: exchanging or adding up the parts of a split tile, scales,
// bias, and the store of out.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"

namespace tilewright {

__device__ __forceinline__ U32 bitsOf(int v) {
  return static_cast<U32>(v);
}
__device__ __forceinline__ U32 bitsOf(float v) {
  return __float_as_uint(v);
}
__device__ __forceinline__ void addBits(U32 bits, int& v) {
  v += static_cast<int>(bits);
}
__device__ __forceinline__ void addBits(U32 bits, float& v) {
  v += __uint_as_float(bits);
}

/// Stores this warpgroup's part of a split tile. Returns whether it was the last part; then `values` is the sum of all,
/// in the order of their numbers.
template <bool kIntegers, typename Value, int kValues>
__device__ __forceinline__ bool addUpParts(const FusedArguments& p, int warpgroup, int tile, Value (&values)[kValues]) {
  const TileParts parts(p.schedule, tile);
  const int thread = threadIdx.x % 128;
  uint4* const partials = reinterpret_cast<uint4*>(p.partials) + warpgroup * (kValues / 4) * 128 + thread;
  constexpr int kSlotVectors = kWarpgroups * (kValues / 4) * 128;

  uint4* own = partials + static_cast<I64>(parts.slot(parts.own())) * kSlotVectors;
#pragma unroll
  for (int i = 0; i < kValues / 4; ++i) {
    __stcg(own + i * 128, make_uint4(bitsOf(values[4 * i]), bitsOf(values[4 * i + 1]), bitsOf(values[4 * i + 2]),
                                     bitsOf(values[4 * i + 3])));
  }

  // Count this part; whoever completes the count sees the others' stores.
  __threadfence();
  namedBarrier(1 + warpgroup, 128);
  bool isLast = false;
  if (thread == 0) {
    U32* counter = p.counters + (tile - p.schedule.wholeTiles) * kWarpgroups + warpgroup;
    isLast = atomicAdd(counter, 1u) == static_cast<U32>(parts.count()) - 1;
    __threadfence();
  }
  if (!namedBarrierAny(1 + warpgroup, 128, isLast)) return false;

  // Sums of two parts, and of integers, do not depend on the order: add to what the registers hold. Else begin anew.
  const bool keepsOwn = kIntegers || parts.count() == 2;
  if (!keepsOwn) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = 0;
  }
#pragma unroll 1
  for (int part = 0; part < parts.count(); ++part) {
    if (keepsOwn && part == parts.own()) continue;
    const uint4* other = partials + static_cast<I64>(parts.slot(part)) * kSlotVectors;
    // NOTE: batches bound how many loads the assembler keeps in registers; all at once spill.
    constexpr int kBatch = kValues / 4 < 8 ? kValues / 4 : 8;
#pragma unroll
    for (int batch = 0; batch < kValues / 4; batch += kBatch) {
      uint4 v[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) v[i] = __ldcg(other + (batch + i) * 128);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        Value* sums = values + 4 * (batch + i);
        addBits(v[i].x, sums[0]);
        addBits(v[i].y, sums[1]);
        addBits(v[i].z, sums[2]);
        addBits(v[i].w, sums[3]);
      }
      asm volatile("" ::: "memory");
    }
  }
  return true;
}

/// The blocks of a cluster hold sums over different k of the same tile. Each gets from the others, in its x ring, what
/// they hold of its kPartTokens tokens: then `own` is the sum of all for those. Nothing goes through global memory.
///
///   all warps        tell the other blocks that their products are done, that is, that the x ring is free
///   othersDone       send each its part (st.async), which counts its bytes at the receiver
///   partsHere        add what came, in the order of ranks
///
/// Whoever exits has got all that others send it, and others need nothing of it any more. A block has one split tile,
/// its last: so the barriers are in their first phase, and the producer fills the ring no more.
template <typename Value, int kValues>
__device__ __forceinline__ void exchangeParts(const SharedView& shared, int warpgroup, const Value (&values)[kValues],
                                              Value (&own)[kValues / kCluster]) {
  constexpr int kVectors = kValues / kCluster / 4;
  const int thread = threadIdx.x % 128, rank = static_cast<int>(clusterRank());

  if (thread == 0) barrierArriveExpect(shared.partsHere(warpgroup), (kCluster - 1) * kBytesPart);
  if (thread % 32 < kCluster && thread % 32 != rank) barrierArriveRemote(shared.othersDone(), thread % 32);
  barrierWait(shared.othersDone(), 0);
#pragma unroll
  for (int to = 0; to < kCluster; ++to) {
    const Value* part = values + to * kVectors * 4;
    if (to == rank) {
#pragma unroll
      for (int i = 0; i < kVectors * 4; ++i) own[i] = part[i];
    } else {
      const U32 target = remoteAddress(shared.part(rank - (rank > to), warpgroup) + thread * 16, to);
      const U32 barrier = remoteAddress(shared.partsHere(warpgroup), to);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        storeRemote4(target + i * 2048, bitsOf(part[4 * i]), bitsOf(part[4 * i + 1]), bitsOf(part[4 * i + 2]),
                     bitsOf(part[4 * i + 3]), barrier);
      }
    }
  }

  barrierWait(shared.partsHere(warpgroup), 0);
#pragma unroll
  for (int from = 0; from < kCluster - 1; ++from) {
    const U32 source = shared.part(from, warpgroup) + thread * 16;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint4 v = loadShared4(source + i * 2048);
      addBits(v.x, own[4 * i]);
      addBits(v.y, own[4 * i + 1]);
      addBits(v.z, own[4 * i + 2]);
      addBits(v.w, own[4 * i + 3]);
    }
  }
}

/// What the end of a tile needs for a thread's two rows, 8 apart.
struct RowFactors {
  float scale[2] = {1.0f, 1.0f}, bias[2] = {0.0f, 0.0f};

  /// `row` is the warpgroup's first.
  __device__ __forceinline__ RowFactors(const FusedArguments& p, int row) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int n = row + warp * 16 + lane / 4 + 8 * i;
      if constexpr (!kIsBf16) scale[i] = __ldg(p.rowBounds + n) * (1.0f / kTopWeight);
      if (p.bias != nullptr && n < p.n) bias[i] = bf16ToFloat(__ldg(p.bias + n));
    }
  }

  /// Brings a row's factors to L2 while its tile is computed.
  static __device__ __forceinline__ void prefetch(const FusedArguments& p, int row) {
    if constexpr (!kIsBf16) prefetchL2(p.rowBounds + row);
    if (p.bias != nullptr && row < p.n) prefetchL2(p.bias + row);
  }
};

/// Scales `values`, adds the bias and stores rows row .. row + 63 of 2 kValues tokens, kOutTokens at a time, through
/// buffers with the 128-byte swizzle in which a token is a line. What lies past m and n is not written.
template <typename Value, int kValues>
__device__ __forceinline__ void storeTile(const FusedArguments& p, const TensorMapParameter& mapOut,
                                          const SharedView& shared, int warpgroup, int row, int token,
                                          const RowFactors& factors, const Value (&values)[kValues]) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const bool leader = threadIdx.x % 128 == 0;

  // The scales of a box are fetched a box ahead: no load crosses the barriers by itself.
  constexpr int kColumns = kOutTokens / 8;
  float2 scales[2][kColumns];
  const auto fetchScales = [&](int t, float2(&s)[kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      s[j] = {1.0f, 1.0f};
      if constexpr (!kIsBf16 && !kPromotes) {
        s[j] = *reinterpret_cast<const float2*>(p.tokenScales + token + t + 8 * j + 2 * (lane % 4));
      }
    }
  };
  fetchScales(0, scales[0]);
  constexpr int kBoxes = 2 * kValues / kOutTokens;
#pragma unroll
  for (int t = 0; t < 2 * kValues; t += kOutTokens) {
    const int box = t / kOutTokens;
    if (t + kOutTokens < 2 * kValues) fetchScales(t + kOutTokens, scales[(box + 1) % 2]);
    // The copy engine has read what this buffer held before: all stores but the last one, which was from the other
    // buffer, unless it was the last box of a tile with an odd number of them. Boxes that are stored one by one count
    // as no store.
    constexpr bool kAlternates = kOutBuffers == 2 && kRagged == 0;
    const U32 buffer = shared.out(warpgroup) + box % kOutBuffers * kBytesOut;
    if (leader) {
      if (kAlternates && (box > 0 || kBoxes % 2 == 0)) {
        tmaStoreWaitRead<1>();
      } else {
        tmaStoreWaitRead<0>();
      }
    }
    namedBarrier(1 + warpgroup, 128);
#pragma unroll
    for (int jj = t / 8; jj < (t + kOutTokens) / 8; jj += 2) {
      U32 words[4];
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int j = jj + q;
        const float2 s = scales[box % 2][j - t / 8];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float v0 = static_cast<float>(values[4 * j + 2 * i]),
                      v1 = static_cast<float>(values[4 * j + 2 * i + 1]);
          words[2 * q + i] = packBf16(fmaf(v0, factors.scale[i] * s.x, factors.bias[i]),
                                      fmaf(v1, factors.scale[i] * s.y, factors.bias[i]));
        }
      }
      const int matrix = lane / 8, line = 8 * (jj - t / 8 + matrix / 2) + lane % 8, chunk = warp * 2 + matrix % 2;
      storeMatrix4Transposed(buffer + line * 128 + ((chunk ^ (line % 8)) << 4), words[0], words[1], words[2], words[3]);
    }
    fenceAsyncShared();
    namedBarrier(1 + warpgroup, 128);
    if (kRagged == 0 || row + 64 <= p.n) {
      if (leader) tmaStore2d(&mapOut, row, token + t, buffer);
    } else {
      // The copy engine clips in units of 16 bytes: store the last row's piece one by one.
      const int thread = opaqueThreadIndex() % 128, column = thread % 64;
#pragma unroll 1
      for (int line = thread / 64; line < kOutTokens; line += 2) {
        if (row + column < p.n && token + t + line < p.m) {
          const U32 v = loadShared16(buffer + line * 128 + ((column / 8 ^ line % 8) << 4) + column % 8 * 2);
          p.out[(token + t + line) * p.outStride + row + column] = static_cast<U16>(v);
        }
      }
    }
  }
}

/// `factors()` gives the rows' factors; it is called before an exchange, or where the tile is finished here.
template <typename Value, int kValues, typename Factors>
__device__ __forceinline__ void finishSegment(const FusedArguments& p, const TensorMapParameter& mapOut,
                                              const SharedView& shared, int warpgroup, const Segment& segment, int row,
                                              int token, Value (&values)[kValues], Factors factors) {
  if constexpr (kCluster > 1) {
    const RowFactors rows = factors();
    if (!segment.isWhole(p.schedule)) {
      Value own[kValues / kCluster];
      exchangeParts(shared, warpgroup, values, own);
      return storeTile(p, mapOut, shared, warpgroup, row, token + static_cast<int>(clusterRank()) * kPartTokens, rows,
                       own);
    }
    storeTile(p, mapOut, shared, warpgroup, row, token, rows, values);
  } else if (!kHasSplits || segment.isWhole(p.schedule) ||
             addUpParts<kSumsAreIntegers>(p, warpgroup, segment.tile, values)) {
    storeTile(p, mapOut, shared, warpgroup, row, token, factors(), values);
  }
}

}  // namespace tilewright
