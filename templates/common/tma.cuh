// The bulk copy engine: tiles by tensor map (cp.async.bulk.tensor) and contiguous bytes (cp.async.bulk).
//
// Loads complete on an mbarrier by bytes; stores belong to the issuing thread's bulk groups. Coordinates are in
// elements, innermost first; what lies outside the tensor is read as zero and not written. Shared-memory addresses are
// multiples of 128 (of 1024 for tiles with the 128-byte swizzle), sizes and global addresses of bulk copies multiples
// of 16.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

/// L2 cache policies, as createpolicy encodes them.
constexpr U64 kEvictFirst = 0x12F0000000000000ull;
constexpr U64 kEvictNormal = 0x1000000000000000ull;
constexpr U64 kEvictLast = 0x14F0000000000000ull;

__device__ __forceinline__ void tmaPrefetchMap(const TensorMapParameter* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Brings the line of an address to L2.
__device__ __forceinline__ void prefetchL2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// The same to L1, where it stays for this block's loads.
__device__ __forceinline__ void prefetchL1(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

__device__ __forceinline__ void tmaLoad2d(U32 target, const TensorMapParameter* map, int x, int y, U32 barrier,
                                          U64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void tmaLoad3d(U32 target, const TensorMapParameter* map, int x, int y, int z, U32 barrier,
                                          U64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(policy)
      : "memory");
}

/// By one lane of a converged warp: `leader` is a predicate of the instruction (see barrierArriveExpectIf).
__device__ __forceinline__ void tmaLoad4dIf(bool leader, U32 target, const TensorMapParameter* map, int x, int y, int z,
                                            int w, U32 barrier, U64 policy) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %8, 0;"
      " @p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %5}], [%6], %7;}" ::"r"(target),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "l"(policy), "r"(static_cast<int>(leader))
      : "memory");
}
__device__ __forceinline__ void tmaLoad5dIf(bool leader, U32 target, const TensorMapParameter* map, int x, int y, int z,
                                            int w, int v, U32 barrier, U64 policy) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %9, 0;"
      " @p cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;}" ::"r"(target),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(barrier), "l"(policy), "r"(static_cast<int>(leader))
      : "memory");
}
/// The same tile to the same address of every block of the cluster named in `mask`, each at its own barrier.
__device__ __forceinline__ void tmaLoadMulticast4dIf(bool leader, U32 target, const TensorMapParameter* map, int x,
                                                     int y, int z, int w, U32 barrier, U16 mask, U64 policy) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %9, 0;"
      " @p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;}" ::"r"(target),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "h"(mask), "l"(policy), "r"(static_cast<int>(leader))
      : "memory");
}

__device__ __forceinline__ void bulkLoad(U32 target, const void* source, U32 bytes, U32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Stores a tile and closes the bulk group. Written data needs fenceAsyncShared() and a barrier first.
__device__ __forceinline__ void tmaStore2d(const TensorMapParameter* map, int x, int y, U32 source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
               "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's bulk groups still read shared memory.
template <int kPending>
__device__ __forceinline__ void tmaStoreWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Waits until all of this thread's bulk groups are done.
__device__ __forceinline__ void tmaStoreWaitAll() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Orders this thread's ordinary shared-memory accesses before later ones of the copy engine and of wgmma: writes that
/// these read, and reads of what the copy engine overwrites. For neither is an arrival at an mbarrier enough: loads may
/// still be under way behind it.
__device__ __forceinline__ void fenceAsyncShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace tilewright
