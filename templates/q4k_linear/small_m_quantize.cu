// Quantizes activations for small_m_sm90.cu into the layout of small_m_activations.cuh, and zeroes its counters. One
// warp takes 256 k of one token; tokens from m to the end of their group become zeros. With no super-blocks of k it
// only zeroes counters, for a product whose activations another call has quantized.
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/small_m_activations.cuh"

using namespace tilewright;

struct SmallMQuantizeArguments {
  const uint4* x;   // [m, k] BF16, rows of xStride vectors of 8
  U8* activations;  // [k / 256, token group] of kGroupBytes
  U32* counters;    // to be zeroed for the product
  I64 xStride;      // vectors
  I32 m, blocks, groups, counterCount;
};

extern "C" __global__ void __launch_bounds__(256) quantizeSmallM(const SmallMQuantizeArguments p) {
  letNextKernelStart();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < p.counterCount; i += gridDim.x * 256) p.counters[i] = 0;

  const int item = blockIdx.x * 8 + threadIdx.x / 32;  // token fastest: a block's warps read different rows
  const int token = item % (p.groups * 8), block = item / (p.groups * 8);
  if (block >= p.blocks) return;
  uint4 v = make_uint4(0, 0, 0, 0);
  if (token < p.m) v = p.x[token * p.xStride + block * 32 + threadIdx.x % 32];
  quantizePiece(p.activations + (static_cast<I64>(block) * p.groups + token / 8) * kGroupBytes, v, token);
}
