// Lines of segments laid end to end, and the KV lengths that they are made of: how the attention kernels cut work into
// equal pieces on the device, where alone the lengths are known.
#pragma once

#include "templates/common/types.cuh"
#include "templates/common/warp_control.cuh"

namespace tilewright {

// The KV length of a batch entry: clamped to [0, capacity]; the capacity where the caller keeps no lengths.
__device__ __forceinline__ int kvLenOf(const int* kvLen, int capacity, int batch) {
  return kvLen == nullptr ? capacity : max(0, min(__ldg(kvLen + batch), capacity));
}

// A segment of a line of segments laid end to end.
struct Segment {
  int index;    // negative: none
  int ordinal;  // number of nonempty segments before it
  U32 begin, length;
};

// The first segment i of `count`, lengthOf(i) long and ending at `end`, for which stop(i, end); without one, `begin` is
// the length of the whole line. All lanes of a warp call it and get the same.
template <typename Length, typename Stop>
__device__ Segment findSegment(int count, Length lengthOf, Stop stop) {
  const int lane = threadIdx.x % 32;
  U32 before = 0;
  int ordinal = 0;
  for (int base = 0; base < count; base += 32) {
    const int i = base + lane;
    const U32 length = i < count ? lengthOf(i) : 0;
    U32 end = length;
    for (int step = 1; step < 32; step *= 2) {
      const U32 left = __shfl_up_sync(kFullWarp, end, step);
      if (lane >= step) end += left;
    }
    end += before;
    const U32 hits = __ballot_sync(kFullWarp, i < count && stop(i, end));
    const U32 filled = __ballot_sync(kFullWarp, length > 0);
    if (hits != 0) {
      const int hit = __ffs(hits) - 1;
      const U32 hitLength = __shfl_sync(kFullWarp, length, hit);
      return {base + hit, ordinal + __popc(filled & ((1u << hit) - 1)), __shfl_sync(kFullWarp, end, hit) - hitLength,
              hitLength};
    }
    before = __shfl_sync(kFullWarp, end, 31);
    ordinal += __popc(filled);
  }
  return {-1, ordinal, before, 0};
}

}  // namespace tilewright
