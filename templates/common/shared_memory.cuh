// Shared-memory loads and stores by 32-bit address, and the matrix moves between registers and shared memory.
//
// ldmatrix and stmatrix move four 8x8 matrices of 16-bit elements: lanes 8i to 8i + 7 give the row addresses of matrix
// i, and lane l holds elements 2 (l % 4) and + 1 of row l / 4 (with .trans: of column l / 4) of matrix i in word i.
#pragma once

#include "templates/common/types.cuh"

namespace tilewright {

__device__ __forceinline__ U32 loadShared(U32 address) {
  U32 v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint2 loadShared2(U32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint4 loadShared4(U32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
/// 16 bits, zero-extended.
__device__ __forceinline__ U32 loadShared16(U32 address) {
  U32 v;
  asm volatile("{.reg .b16 half; ld.shared.b16 half, [%1]; cvt.u32.u16 %0, half;}" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ float loadSharedFloat(U32 address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ float2 loadSharedFloat2(U32 address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

/// From the same address of another block of the cluster.
__device__ __forceinline__ float loadRemote(U32 address, U32 rank) {
  float v;
  asm volatile("{.reg .b32 remote; mapa.shared::cluster.u32 remote, %1, %2; ld.shared::cluster.f32 %0, [remote];}"
               : "=f"(v)
               : "r"(address), "r"(rank)
               : "memory");
  return v;
}
__device__ __forceinline__ float4 loadRemote4(U32 address, U32 rank) {
  float4 v;
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %4, %5;"
      " ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(address), "r"(rank)
      : "memory");
  return v;
}

__device__ __forceinline__ void storeShared(U32 address, U32 v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void storeShared2(U32 address, U32 a, U32 b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void storeShared4(U32 address, U32 a, U32 b, U32 c, U32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ uint4 loadMatrix4(U32 address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 loadMatrix4Transposed(U32 address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ void storeMatrix4Transposed(U32 address, U32 a, U32 b, U32 c, U32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

}  // namespace tilewright
