// One token's activations in 8 bits, for the products of fused_sm90.cu and two_pass_sm90.cu: by the blocks of
// quantize.cu, or by the product's own consumers (fused_sm90_quantize.cuh).
//
// q[token, i] = round(x[token, i] / s), one scale s for the token's k or for each group of kScaleK of them. A thread
// keeps its vectors of 8 values in registers between the two passes, so that x is read once.
//
//   e4m3  s = max |x| / 448. operand_bytes.cuh has the order of the bytes.
//   s8    s = max |x| / 127, unless max |x| is more than kUsual times the mean of |x|: outliers. Then s is kUsual means
//         / 127, or max |x| / 8128 if that is more, and what rounds to more than 127 units is stored as 64 h + l, l in
//         the matrix of all values and h in a second one, which is zero elsewhere. A bit per token and 64 k says where
//         h is not zero, a byte per token whether it has any (fused_sm90_outliers.cuh reads both). One scale for
//         everything instead would err by 4 to 7 % where 0.5 % of the channels are 30 times as large as the others.
//
// A group of zeros gets the scale 0 and zeros.
#pragma once

#include "templates/common/numeric.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3), kScaleK (0 a scale per token, 256 or 4096 one per token and as many k).
static_assert(kScaleK == 0 || kScaleK == 256 || kScaleK == 4096, "a word of flags has those of whole groups");

namespace tilewright {

constexpr int kBlockVectors = kBlockWeights / 8;  // of a super-block, and of a warp
constexpr int kWordVectors = kWordBlocks * kBlockVectors;
constexpr int kScaleBlocks = kScaleK / kBlockWeights;  // of a scale, unless a token has one

struct QuantizeArguments {
  const uint4* x;      // [m, k] BF16, rows of xStride vectors of 8
  uint2* quantized;    // [m, k] bytes; s8: then as many of the upper bits
  float* scales;       // [m padded], or [k / kScaleK rounded up, m padded]
  U8* outlierTokens;   // s8: [m padded], not 0 for a token with outliers
  U64* outlierChunks;  // s8: a bit per 64 k, [blocks / 16 rounded up, m padded]
  U32* counters;       // to be zeroed for the product
  I64 xStride;         // vectors
  I32 m, k, mPadded, counterCount;
};

