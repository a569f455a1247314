// Outliers of s8 activations in fused_sm90.cu and two_pass_sm90.cu: which parts of k are multiplied twice, and what
// becomes of the sums.
//
// A token's scale s is chosen for its usual values (quantize.cu), so that x / s = 64 h + l: l is what the first matrix
// of quantized activations holds, h the second one; h is zero but for outliers. Over a group of super-blocks (all of a
// segment, or those of one scale):
//
//   first pass    A = sum of v l, over everything
//   second pass   B = sum of v h, over the chunks of 64 k in which a token of the tile has an h, in the same registers:
//                 A' = (A + 32) >> 6, A' += B, A' <<= 6
//
// |A + 64 B| is at most 126 times the sum of |x / s|, which is at most 16 k where there are outliers (quantize.cu), and
// fits in s32; A in units of 64 errs by less than the rounding of a few products. Without outliers there is no second
// pass.
//
// The warp that copies activations reads the tokens' flags and publishes a mask of every group in shared memory: one
// word per 16 super-blocks of k, four bits for the chunks of each. Everyone walks it. Slots need no `empty` barrier:
// when the mask of group g is written, the consumers are at group g - 5 or later, for the x ring holds at most 4
// super-blocks, and they cannot be past a group's first super-block before everyone else has read the mask of the group
// before. Groups of one super-block are the worst case; their masks have only their own four bits of the word.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"

namespace tilewright {

constexpr int kUpperBits = 6;  // h counts units of 1 << kUpperBits
constexpr U64 kAllChunks = ~0ull;

/// The bits of super-blocks [begin, end) in a word.
__device__ __forceinline__ U64 wordMask(int word, int begin, int end) {
  const int first = max(begin - word * kWordBlocks, 0), last = min(end - word * kWordBlocks, kWordBlocks);
  return kAllChunks << 4 * first & kAllChunks >> (64 - 4 * last);
}

/// Takes the first super-block of a word off it; gives its chunks' bits.
__device__ __forceinline__ U32 takeBlock(U64& mask, int word, int& block) {
  const int shift = (__ffsll(static_cast<I64>(mask)) - 1) & ~3;
  const U32 chunks = static_cast<U32>(mask >> shift) & 15;
  block = word * kWordBlocks + shift / 4;
  mask &= ~(15ull << shift);
  return chunks;
}

/// Reads the masks of this block's groups, in order.
class MaskReader {
 public:
  __device__ __forceinline__ explicit MaskReader(const SharedView& shared) : shared_(shared) {}

  /// Where the next group's words are.
  __device__ __forceinline__ U32 next() {
    barrierWait(shared_.fullMask(ring_.stage), ring_.phase);
    const U32 words = shared_.mask(ring_.stage);
    ring_.advance<kMaskSlots>();
    return words;
  }

 private:
  const SharedView& shared_;
  RingPosition ring_;
};

__device__ __forceinline__ U64 loadMask(U32 words, int i) {
  const uint2 v = loadShared2(words + 8 * i);
  return v.x | static_cast<U64>(v.y) << 32;
}

/// A whole warp: finds the mask of a group for the tokens from `token` on, and publishes it.
class MaskWriter {
 public:
  __device__ __forceinline__ void publish(const FusedArguments& p, const SharedView& shared, int token, int begin,
                                          int end) {
    const int first = begin / kWordBlocks;
    const U32 words = shared.mask(ring_.stage);
    if constexpr (kIsPartOfWord) {
      // The word of the group before serves the next ones, too.
      if (token != token_ || first != word_) {
        flags_ = readFlags(p, token, first, anyOutliers(p, token));
        token_ = token, word_ = first;
      }
      storeMask(words, flags_ & wordMask(first, begin, end));
    } else {
      const bool hasOutliers = anyOutliers(p, token);
#pragma unroll 1
      for (int word = first; word * kWordBlocks < end; ++word) {
        storeMask(words + 8 * (word - first), readFlags(p, token, word, hasOutliers) & wordMask(word, begin, end));
      }
    }
    if (isLeader()) barrierArrive(shared.fullMask(ring_.stage));
    ring_.advance<kMaskSlots>();
  }

 private:
  static constexpr bool kIsPartOfWord = kPromotes && kGroupBlocks < kWordBlocks;

  static __device__ __forceinline__ bool isLeader() { return threadIdx.x % 32 == 0; }
  static __device__ __forceinline__ void storeMask(U32 address, U64 mask) {
    if (isLeader()) storeShared2(address, static_cast<U32>(mask), static_cast<U32>(mask >> 32));
  }
  /// Usually no token has outliers, which one round of loads tells: the ring of activations must not run dry.
  static __device__ __forceinline__ bool anyOutliers(const FusedArguments& p, int token) {
    const int lane = threadIdx.x % 32;
    U32 tokens = 0;
#pragma unroll
    for (int t = 0; t < kTokens; t += 128) {
      if (t + 4 * lane < kTokens) tokens |= __ldcg(reinterpret_cast<const U32*>(p.outlierTokens + token + t) + lane);
    }
    return __any_sync(~0u, tokens != 0);
  }
  /// A word of all tokens' flags.
  static __device__ __forceinline__ U64 readFlags(const FusedArguments& p, int token, int word, bool hasOutliers) {
    U64 any = 0;
    if (hasOutliers) {
      const U64* flags = p.outlierChunks + static_cast<I64>(word) * p.mPadded + token;
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int t = 0; t < kTokens; t += 32) {
        if (t + lane < kTokens) any |= __ldcg(flags + t + lane);
      }
    }
    const U32 low = __reduce_or_sync(~0u, static_cast<U32>(any));
    const U32 high = __reduce_or_sync(~0u, static_cast<U32>(any >> 32));
    return low | static_cast<U64>(high) << 32;
  }

  RingPosition ring_;
  int token_ = -1, word_ = -1;  // whose flags these are; only where groups are parts of a word
  U64 flags_ = 0;
};

/// Walks the super-blocks of a segment in the order in which they are multiplied: visit(super-block, bits of the chunks
/// that are, pass, whether it is the last one of the pass over its group).
template <typename Visit>
__device__ __forceinline__ void visitBlocks(const Segment& segment, MaskReader& masks, Visit visit) {
  if constexpr (!kIsS8) {
    for (int block = segment.begin; block < segment.end; ++block) {
      visit(block, 15, 0, block + 1 == groupEnd(block, segment));
    }
  } else {
    for (int begin = segment.begin; begin < segment.end;) {
      const int end = groupEnd(begin, segment);
#pragma unroll 1
      for (int block = begin; block < end; ++block) visit(block, 15, 0, block + 1 == end);
      const U32 words = masks.next();
#pragma unroll 1
      for (int word = begin / kWordBlocks; word * kWordBlocks < end; ++word) {
        U64 mask = loadMask(words, word - begin / kWordBlocks);
#pragma unroll 1
        while (mask != 0) {
          int block;
          const U32 chunks = takeBlock(mask, word, block);
          visit(block, chunks, 1, mask == 0 && (word + 1) * kWordBlocks >= end);
        }
      }
      begin = end;
    }
  }
}

template <int kCount>
__device__ __forceinline__ void toUpperUnits(Accumulator (&sums)[kCount]) {
  if constexpr (kIsS8) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] = (sums[i] + (1 << (kUpperBits - 1))) >> kUpperBits;
  }
}

template <int kCount>
__device__ __forceinline__ void fromUpperUnits(Accumulator (&sums)[kCount]) {
  if constexpr (kIsS8) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] <<= kUpperBits;
  }
}

}  // namespace tilewright
