// out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) on Hopper's tensor cores, W in raw Q4_K super-blocks (see q4k_block.cuh).
//
// The product is computed transposed, D[row of W, token] = W . x^T: 64 rows of W are the M side of wgmma m64nNk and are
// dequantized straight into its A registers; N tokens are its N side and lie in shared memory (operand B). A nibble is
// read from shared memory once, becomes an operand in registers, and is multiplied at once.
//
// kArithmetic  A, accumulator                x                             result
//   0, s8      round(126 w / r[row]), s32    s8 per token or part of k     acc . r[row] / 126 . s[token]
//   1, e4m3    448 w / r[row], fp32          e4m3 per token or part of k   acc . r[row] / 448 . s[token]
//   2, bf16    w, fp32                       the caller's BF16             acc
// r bounds |w| of a row; quantize.cu makes r, s and the 8-bit x. With one scale per row and token no offset term and no
// group scale is left, and accumulators need no promotion. With kScaleK the sums of as many k (s32, or fp32 of e4m3)
// are added, scaled, to fp32 sums.
//
// Tile: kWarpgroups x 64 rows, kTokens tokens. A block is persistent (split_schedule.cuh) and has kWarpgroups
// consumer warpgroups and one of producers, or with kTableWarps 4 two:
//
//   producer warp 0     W ring: one super-block of every row, 64 rows x 144 bytes a copy
//   producer warp 1     x ring: 128 bytes of k of every token, 128-byte swizzle
//   producer warps 2, 3 unpack each super-block's factors into a table, once instead of four times; with kTableWarps 4
//                       a warpgroup of its own does, which burdens the four schedulers nearly alike
//   consumers           kBuffers 2:  [products of step i, asynchronous][wait for step i - 1][convert step i + 1]
//                       kBuffers 1:  [convert step i][products of step i][wait], covered by the other consumers'
//                       products
//
//   W ring  |sb 0|sb 1|...    full -> (table) -> consumers read nibbles -> empty, once their last product is issued
//   x ring  |128 B|128 B|...  full -> wgmma reads it -> empty, after the wait
//
// s8 multiplies chunks of 64 k in which a token has outliers once more, with the outliers' upper bits
// (fused_sm90_outliers.cuh).
//
// W streams before the kernel that quantizes x has ended (programmatic dependent launch); only the x producer and the
// consumers wait for it; all wait where the product is the call's first launch (FusedArguments::isFirst), and for each
// group's mask of outliers where s8 has groups (fused_sm90_outliers.cuh), so that W is then few super-blocks ahead.
// Epilogue:
// scale, bias, BF16, stmatrix.trans, TMA store of 128-byte lines of out. Of a tile that is split along k, the
// accumulators go to the workspace and the last block adds them up; or, with kCluster, each block of the cluster gets
// from the others what it lacks for its share of the tokens (fused_sm90_finish.cuh).
//
// Conversion and arithmetic: fused_sm90_convert.cuh; roles: fused_sm90_producer.cuh, fused_sm90_activations.cuh,
// fused_sm90_consumer.cuh.
#include "templates/common/mbarrier.cuh"
#include "templates/common/numeric.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/common/wgmma.cuh"
#include "templates/q4k_linear/fused_sm90_activations.cuh"
#include "templates/q4k_linear/fused_sm90_consumer.cuh"
#include "templates/q4k_linear/fused_sm90_convert.cuh"
#include "templates/q4k_linear/fused_sm90_layout.cuh"
#include "templates/q4k_linear/fused_sm90_producer.cuh"

static_assert(kExpanded == 0, "W comes in super-blocks");

using namespace tilewright;

extern "C" __global__ void __launch_bounds__(kLaunchBound, 1)
    q4kLinearFused(const __grid_constant__ TensorMapParameter mapW, const __grid_constant__ TensorMapParameter mapX,
                   const __grid_constant__ TensorMapParameter mapOut, const FusedArguments p) {
  extern __shared__ U8 dynamic[];
  const SharedView shared{(sharedAddress(dynamic) + 1023) & ~1023u};

  // Initialize the barriers; fetch the tensor maps.
  if (threadIdx.x == 0) {
    tmaPrefetchMap(&mapW);
    tmaPrefetchMap(&mapX);
    tmaPrefetchMap(&mapOut);
    for (int s = 0; s < kStagesW; ++s) {
      barrierInit(shared.fullW(s), 1);
      barrierInit(shared.emptyW(s), kWarpgroups * 4);
      barrierInit(shared.fullTable(s), kTableWarps);
    }
    for (int s = 0; s < kStagesX; ++s) {
      barrierInit(shared.fullX(s), 1);
      barrierInit(shared.emptyX(s), kWarpgroups * 4);
    }
    initCommonBarriers(shared);
    barrierInitFence();
  }
  __syncthreads();
  const bool inCluster = joinCluster(p);

  // Part ways.
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == kWarpgroups) {
    shrinkRegisters<kProducerRegisters>();
    const int warp = threadIdx.x / 32 % 4;
    if (warp == 0) {
      if (electOneLane()) produceWeights(p, mapW, shared);
    } else if (warp == 1) {
      produceActivations(p, mapX, shared);
    } else if (!kHasTableWarpgroup) {
      produceTable(p, shared, threadIdx.x % 64);
    }
    if (inCluster) clusterWait();
  } else if (kHasTableWarpgroup && warpgroup > kWarpgroups) {
    shrinkRegisters<kTableRegisters>();
    produceTable(p, shared, threadIdx.x % 128);
    if (inCluster) clusterWait();
  } else {
    growRegisters<kConsumerRegisters>();
    if (inCluster) clusterWait();  // the other blocks' barriers are initialized
    consume(p, mapOut, shared, warpgroup);
  }
}
