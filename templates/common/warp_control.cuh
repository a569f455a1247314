// Control of warps and launches: register budgets (setmaxnreg), named barriers, clusters, programmatic dependent
// launch.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

/// Every lane of a warp, for shuffles and votes.
constexpr U32 kFullWarp = 0xffffffffu;

/// setmaxnreg: every warp of a warpgroup executes it once, in a role that no other role's code joins again. Counts are
/// multiples of 8 from 24 to 256; a warpgroup that grows waits until others have shrunk.
template <int kRegisters>
__device__ __forceinline__ void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Barrier `id` (1 to 15; 0 is __syncthreads) among `threads` threads, a multiple of 32.
__device__ __forceinline__ void namedBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void namedBarrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The same barrier; returns whether `value` holds in any thread, which the compiler knows to be uniform.
__device__ __forceinline__ bool namedBarrierAny(int id, int threads, bool value) {
  U32 any;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, %3, 0; barrier.cta.red.or.pred q, %1, %2, p; selp.u32 %0, 1, 0, q;}"
               : "=r"(any)
               : "r"(id), "r"(threads), "r"(static_cast<U32>(value))
               : "memory");
  return any != 0;
}

__device__ __forceinline__ U32 clusterRank() {
  U32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The same in two halves, between which a thread need not stand still; what it wrote before is not handed over.
__device__ __forceinline__ void clusterArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void clusterWait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/// What stands at `address` in another block of the cluster, for the instructions that take such addresses.
__device__ __forceinline__ U32 remoteAddress(U32 address, U32 rank) {
  U32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

/// Writes 16 bytes to an address of another block, and counts them at that block's mbarrier (remoteAddress() of both).
__device__ __forceinline__ void storeRemote4(U32 address, U32 a, U32 b, U32 c, U32 d, U32 barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "r"(a), "r"(b), "r"(c), "r"(d), "r"(barrier)
      : "memory");
}

/// Writes a word to the same shared address of another block of the cluster, and counts its four bytes at that block's
/// mbarrier.
__device__ __forceinline__ void storeRemote(U32 address, int value, U32 barrier, U32 rank) {
  asm volatile(
      "{.reg .b32 a, b; mapa.shared::cluster.u32 a, %0, %3; mapa.shared::cluster.u32 b, %2, %3;"
      " st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], %1, [b];}" ::"r"(address),
      "r"(value), "r"(barrier), "r"(rank)
      : "memory");
}

/// Flags between blocks of a grid.
__device__ __forceinline__ int loadAcquire(const int* pointer) {
  int value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
}
__device__ __forceinline__ void storeRelease(int* pointer, int value) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
}

/// Programmatic dependent launch: everything that the kernel before wrote is visible after the wait.
__device__ __forceinline__ void waitForPreviousKernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void letNextKernelStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// threadIdx.x, read where it stands: the compiler neither moves nor merges the reads, nor what follows from them.
__device__ __forceinline__ int opaqueThreadIndex() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

/// One lane of a converged warp, always the same.
__device__ __forceinline__ bool electOneLane() {
  U32 elected;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(elected));
  return elected;
}

}  // namespace tilewright
