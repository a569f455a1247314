// linear on any GPU: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]), BF16 in and out, FP32 sums, any sizes and strides.
// templates/common/plain_gemm.cuh has the algorithm; here W's tile is BF16 rows like x's.
#include "templates/common/plain_gemm.cuh"

using namespace tilewright;

// Parameters, from the host half:
//   kTileM, kTileN   outputs of a block, rows of x by rows of W
//   kWarps           warps of a block
//   kAligned         1: bases and rows of x, W and out are multiples of 16 bytes
using Shape = PlainGemmShape<kTileM, kTileN, kWarps>;

extern "C" __global__ void __launch_bounds__(Shape::kThreads)
    linearPlain(const U16* x, I64 xStride, const U16* w, const U16* bias, U16* out, I64 outStride, I64 m, I64 n,
                I64 k) {
  Bf16Tile<Shape, Shape::kTileN, kAligned != 0> weights(w, k, n, k);
  plainGemm<Shape, kAligned != 0>(x, xStride, weights, bias, out, outStride, m, n, k);
}
