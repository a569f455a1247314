// mbarrier: arrival counters in shared memory, with a phase bit, that also count the bytes of asynchronous copies
// (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
//
// A ring of stages uses two per stage: `full`, completed by the copies, and `empty`, completed by the readers. A waiter
// passes the parity of the phase that it waits for: 0 for the first completion, 1 for the second, and so on; a producer
// that starts with parity 1 finds a fresh `empty` barrier passed. RingPosition counts both.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

/// The 32-bit shared-memory address of a generic pointer, as every instruction below takes it.
__device__ __forceinline__ U32 sharedAddress(const void* pointer) {
  return static_cast<U32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrierInit(U32 barrier, U32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialized barriers visible to the copy engine and to the other blocks of a cluster; a block barrier follows.
__device__ __forceinline__ void barrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void barrierArrive(U32 barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and adds `bytes` to what the phase waits for.
__device__ __forceinline__ void barrierArriveExpect(U32 barrier, U32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// The same by one lane of a converged warp.
/// NOTE: `leader` is a predicate of the instruction, not a branch around it: when a whole warp runs the producer's
/// loop, addresses stay in uniform registers and a copy costs a handful of instructions instead of a vote loop.
__device__ __forceinline__ void barrierArriveExpectIf(bool leader, U32 barrier, U32 bytes) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %0, 0;"
      " @p mbarrier.arrive.expect_tx.shared.b64 _, [%1], %2;}" ::"r"(static_cast<int>(leader)),
      "r"(barrier), "r"(bytes)
      : "memory");
}

/// Arrives at the barrier of the same address in another block of the cluster.
/// NOTE: not `.release.cluster`, which costs a MEMBAR.ALL.GPU per arrival; what this signals was only read.
__device__ __forceinline__ void barrierArriveRemote(U32 barrier, U32 rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ bool barrierTryWait(U32 barrier, U32 parity) {
  U32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done;
}

__device__ __forceinline__ void barrierWait(U32 barrier, U32 parity) {
  while (!barrierTryWait(barrier, parity)) {
  }
}

/// Where a reader or writer stands in a ring of stages.
struct RingPosition {
  int stage = 0;
  U32 phase = 0;

  template <int kStages>
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace tilewright
