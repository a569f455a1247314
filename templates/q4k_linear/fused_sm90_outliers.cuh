// Outliers of s8 activations in fused_sm90.cu: which super-blocks are multiplied twice, and what becomes of the sums.
//
// A token's scale s is chosen for its usual values (quantize.cu), so that x / s = 64 h + l: l is what the first matrix
// of quantized activations holds, h the second one; h is zero but for outliers. Over a group of super-blocks (all of a
// segment, or those of one scale):
//
//   first pass    A = sum of v l, over every super-block
//   second pass   B = sum of v h, over the super-blocks in which a token of the tile has an h, in the same registers:
//                 A' = (A + 32) >> 6, A' += B, A' <<= 6
//
// |A + 64 B| is at most 126 times the sum of |x / s|, which is at most 16 k where there are outliers (quantize.cu), and
// fits in s32; A in units of 64 errs by less than the rounding of a few products. Without outliers there is no second
// pass.
//
// The warp that copies activations reads the tokens' flags, publishes one mask a group in shared memory and everyone
// walks its bits. Slots need no `empty` barrier: when the mask of group g is written, the consumers are at group g - 5
// or later, for the x ring holds at most 4 super-blocks, and they cannot be past a group's first super-block before
// everyone else has read the mask of the group before.
#pragma once

#include "templates/common/mbarrier.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"

namespace tilewright {

constexpr int kUpperBits = 6;  // h counts units of 1 << kUpperBits

/// Reads the masks of this block's groups, in order: bit b for super-block b of the group.
class MaskReader {
 public:
  __device__ __forceinline__ explicit MaskReader(const SharedView& shared) : shared_(shared) {}

  __device__ __forceinline__ U64 next() {
    barrierWait(shared_.fullMask(ring_.stage), ring_.phase);
    const uint2 mask = loadShared2(shared_.mask(ring_.stage));
    ring_.advance<kMaskSlots>();
    return mask.x | static_cast<U64>(mask.y) << 32;
  }

 private:
  const SharedView& shared_;
  RingPosition ring_;
};

/// A whole warp: finds the mask of a group for the tokens from `token` on, and publishes it.
class MaskWriter {
 public:
  __device__ __forceinline__ U64 publish(const FusedArguments& p, const SharedView& shared, int token, int begin,
                                         int end) {
    const int lane = threadIdx.x % 32;
    // Groups do not cross the 64 super-blocks of a word: one scale a token serves at most 64, the others begin at
    // multiples of 16.
    const U64* flags = p.outlierBlocks + static_cast<I64>(begin / 64) * p.mPadded + token;
    U64 any = 0;
#pragma unroll
    for (int t = 0; t < kTokens; t += 32) {
      if (t + lane < kTokens) any |= __ldcg(flags + t + lane);
    }
    const U64 mask = any >> (begin % 64) & (~0ull >> (64 - (end - begin)));
    const U32 low = __reduce_or_sync(~0u, static_cast<U32>(mask));
    const U32 high = __reduce_or_sync(~0u, static_cast<U32>(mask >> 32));
    if (lane == 0) {
      storeShared2(shared.mask(ring_.stage), low, high);
      barrierArrive(shared.fullMask(ring_.stage));
    }
    ring_.advance<kMaskSlots>();
    return low | static_cast<U64>(high) << 32;
  }

 private:
  RingPosition ring_;
};

/// Walks the super-blocks of a segment in the order in which they are multiplied: visit(super-block, pass, whether it
/// is the last one of the pass over its group). nextMask() gives the mask of a group after its first pass.
template <typename NextMask, typename Visit>
__device__ __forceinline__ void visitBlocks(const Segment& segment, NextMask nextMask, Visit visit) {
  if constexpr (!kIsS8) {
    for (int block = segment.begin; block < segment.end; ++block)
      visit(block, 0, block + 1 == groupEnd(block, segment));
  } else {
    for (int begin = segment.begin; begin < segment.end;) {
      const int end = groupEnd(begin, segment);
      U64 mask = ~0ull >> (64 - (end - begin));
#pragma unroll 1
      for (int pass = 0; pass < 2; ++pass) {
#pragma unroll 1
        while (mask != 0) {
          const int block = begin + __ffsll(static_cast<I64>(mask)) - 1;
          mask &= mask - 1;
          visit(block, pass, mask == 0);
        }
        if (pass == 0) mask = nextMask();
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
