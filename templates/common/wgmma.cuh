// wgmma: the warpgroup's asynchronous matrix product, D[64, n] += A[64, k] . B[k, n], accumulators in registers, B in
// shared memory, A in either (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//
// The product itself comes in overloads wgmmaS8, wgmmaE4m3, wgmmaBf16 (B K-major) and wgmmaBf16TransposedB (B
// MN-major); the accumulator's size chooses n, the type of A its place. A kernel's main file gets exactly those that
// its host half asks for (wgmma_overloads.h writes them), so that no source holds hundreds of operand lists.
//
// Accumulator element i of a thread (warp w of the warpgroup, lane l): row 16 w + l / 4 + 8 ((i / 2) % 2), column
// 8 (i / 4) + 2 (l % 4) + i % 2. A in registers: word 0 holds row l / 4, word 1 row l / 4 + 8, at k = 4 (l % 4) bytes
// ahead (16-bit types: 2 (l % 4) elements), words 2 and 3 the same rows 16 bytes of k further.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

/// Shared-memory descriptor of a K-major operand tile in rows of 128 bytes with the 128-byte swizzle, as TMA writes it:
/// groups of 8 rows, 1024 bytes each, at 1024-byte alignment. Advance along k by adding bytes / 16.
__device__ __forceinline__ U64 wgmmaDescriptor128(U32 address) {
  return static_cast<U64>((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

/// The same for an MN-major operand (transposed B): rows are k, 64 16-bit elements of MN in 128 bytes. `blockBytes` is
/// the distance between neighbouring blocks of 64 elements of MN (leading dimension), `groupBytes` between groups of 8
/// k (stride): 1024 for a tile that TMA wrote with the 128-byte swizzle.
__device__ __forceinline__ U64 wgmmaDescriptor128Mn(U32 address, U32 blockBytes, U32 groupBytes) {
  return static_cast<U64>((address & 0x3ffff) >> 4) | (static_cast<U64>(blockBytes >> 4) << 16) |
         (static_cast<U64>(groupBytes >> 4) << 32) | (1ull << 62);
}

/// Orders register and shared-memory accesses before the products that follow.
__device__ __forceinline__ void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending groups of products are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving uses of registers that a product reads or writes across a wait.
template <int kCount>
__device__ __forceinline__ void pinRegisters(int (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pinRegisters(U32 (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pinRegisters(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

}  // namespace tilewright
