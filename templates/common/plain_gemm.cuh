// out[i, j] = sum over k of x[i, k] W[j, k] (+ bias[j]) on any GPU, for any sizes, strides and alignment: the plain
// kernels of `linear` and `q4k_linear` differ in how a tile of W reaches shared memory as BF16.
//
// A block computes kTileM x kTileN outputs at a time and steps through k in tiles of 64:
//
//   registers <- x, W tile i + 1   |   shared memory holds tile i: ldmatrix, mma.sync into FP32 accumulators
//
// One buffer in shared memory, the next tile waits in registers. Rows are padded by 8 elements, so that the eight rows
// of a matrix that ldmatrix reads lie in different banks. What lies beyond m, n or k is zero in shared memory and never
// read from memory. Blocks walk the tiles with a stride of the grid, rows of x fastest: neighbours share their tile of
// W in L2.
#pragma once

#include "templates/common/mma.cuh"
#include "templates/common/numeric.cuh"
#include "templates/common/types.cuh"

namespace tilewright {

/// Sizes of a block's work. W's tile is loaded by the Weights type: fetch(first row, first k) and store(tile).
template <int kTileM_, int kTileN_, int kWarps_>
struct PlainGemmShape {
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kTileK = 64;
  static constexpr int kPitch = kTileK + 8;  // elements between rows in shared memory
  static constexpr int kThreads = kWarps_ * 32;
  static constexpr int kWarpsM = kTileM >= 64 ? 2 : 1, kWarpsN = kWarps_ / kWarpsM;
  static constexpr int kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;
  static_assert(kWarps_ % kWarpsM == 0, "the warps form rows of equal length");
  static_assert(kTileM % (16 * kWarpsM) == 0, "a warp's rows are whole MMA tiles");
  static_assert(kTileN % (16 * kWarpsN) == 0, "a warp's columns are whole pairs of MMA tiles");
};

/// A tile of BF16 rows on its way from memory to shared memory.
template <class Shape, int kRows, bool kAligned>
class Bf16Tile {
 public:
  __device__ Bf16Tile(const U16* base, I64 stride, I64 rows, I64 columns)
      : base_(base), stride_(stride), rows_(rows), columns_(columns) {}

  __device__ void fetch(I64 firstRow, I64 firstColumn) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = threadIdx.x + i * Shape::kThreads;
      const I64 row = firstRow + chunk / kChunksPerRow, column = firstColumn + chunk % kChunksPerRow * 8;
      chunks_[i] = make_uint4(0, 0, 0, 0);
      if (chunk >= kRows * kChunksPerRow || row >= rows_) continue;
      const U16* from = base_ + row * stride_ + column;
      if (kAligned && column + 8 <= columns_) {
        chunks_[i] = *reinterpret_cast<const uint4*>(from);
      } else {
        U32 words[4] = {};
        for (int j = 0; j < 8; ++j) {
          if (column + j < columns_) words[j / 2] |= static_cast<U32>(from[j]) << (j % 2 * 16);
        }
        chunks_[i] = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  __device__ void store(U16* tile) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = threadIdx.x + i * Shape::kThreads;
      if (chunk >= kRows * kChunksPerRow) continue;
      *reinterpret_cast<uint4*>(tile + chunk / kChunksPerRow * Shape::kPitch + chunk % kChunksPerRow * 8) = chunks_[i];
    }
  }

 private:
  static constexpr int kChunksPerRow = Shape::kTileK / 8;
  static constexpr int kChunks = ceilDiv(kRows * kChunksPerRow, Shape::kThreads);

  const U16* base_;
  I64 stride_, rows_, columns_;
  uint4 chunks_[kChunks];
};

/// One tile's outputs of a warp: convert, add the bias, store what lies inside.
template <class Shape, bool kAligned>
__device__ __forceinline__ void storeOutputs(const float (&acc)[Shape::kWarpM / 16][Shape::kWarpN / 8][4], U16* out,
                                             I64 outStride, const U16* bias, I64 firstRow, I64 firstColumn, I64 m,
                                             I64 n) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Shape::kWarpM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kWarpN / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const I64 row = firstRow + i * 16 + half * 8 + lane / 4, column = firstColumn + j * 8 + lane % 4 * 2;
        if (row >= m || column >= n) continue;
        const bool pair = column + 1 < n;
        float low = acc[i][j][2 * half], high = acc[i][j][2 * half + 1];
        if (bias != nullptr) {
          low += bf16ToFloat(bias[column]);
          if (pair) high += bf16ToFloat(bias[column + 1]);
        }
        const U32 word = packBf16Anywhere(low, high);
        U16* to = out + row * outStride + column;
        if (kAligned && pair) {
          *reinterpret_cast<U32*>(to) = word;
        } else {
          to[0] = static_cast<U16>(word);
          if (pair) to[1] = static_cast<U16>(word >> 16);
        }
      }
    }
  }
}

template <class Shape, bool kAligned, class Weights>
__device__ __forceinline__ void plainGemm(const U16* x, I64 xStride, Weights& weights, const U16* bias, U16* out,
                                          I64 outStride, I64 m, I64 n, I64 k) {
  __shared__ __align__(16) U16 xTile[Shape::kTileM * Shape::kPitch];
  __shared__ __align__(16) U16 wTile[Shape::kTileN * Shape::kPitch];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warpRow = warp / Shape::kWarpsN * Shape::kWarpM, warpColumn = warp % Shape::kWarpsN * Shape::kWarpN;
  // Where this lane's row of each matrix lies: A's matrices go down first, B's go right first.
  const U16* aRow = xTile + (warpRow + lane % 16) * Shape::kPitch + lane / 16 * 8;
  const U16* bRow = wTile + (warpColumn + lane / 16 * 8 + lane % 8) * Shape::kPitch + lane / 8 % 2 * 8;

  const I64 tilesM = (m + Shape::kTileM - 1) / Shape::kTileM, tilesN = (n + Shape::kTileN - 1) / Shape::kTileN;
  for (I64 tile = blockIdx.x; tile < tilesM * tilesN; tile += gridDim.x) {
    const I64 firstRow = tile % tilesM * Shape::kTileM, firstColumn = tile / tilesM * Shape::kTileN;
    Bf16Tile<Shape, Shape::kTileM, kAligned> activations(x, xStride, m, k);
    float acc[Shape::kWarpM / 16][Shape::kWarpN / 8][4] = {};

    activations.fetch(firstRow, 0);
    weights.fetch(firstColumn, 0);
    for (I64 k0 = 0; k0 < k; k0 += Shape::kTileK) {
      // The tile in registers replaces the one in shared memory.
      __syncthreads();
      activations.store(xTile);
      weights.store(wTile);
      __syncthreads();
      if (k0 + Shape::kTileK < k) {
        activations.fetch(firstRow, k0 + Shape::kTileK);
        weights.fetch(firstColumn, k0 + Shape::kTileK);
      }

      // Multiply.
#pragma unroll
      for (int kk = 0; kk < Shape::kTileK; kk += 16) {
        U32 b[Shape::kWarpN / 16][4];
#pragma unroll
        for (int j = 0; j < Shape::kWarpN / 16; ++j) loadMatrices(b[j], bRow + j * 16 * Shape::kPitch + kk);
#pragma unroll
        for (int i = 0; i < Shape::kWarpM / 16; ++i) {
          U32 a[4];
          loadMatrices(a, aRow + i * 16 * Shape::kPitch + kk);
#pragma unroll
          for (int j = 0; j < Shape::kWarpN / 16; ++j) {
            mmaBf16(acc[i][2 * j], a, b[j][0], b[j][1]);
            mmaBf16(acc[i][2 * j + 1], a, b[j][2], b[j][3]);
          }
        }
      }
    }
    storeOutputs<Shape, kAligned>(acc, out, outStride, bias, firstRow + warpRow, firstColumn + warpColumn, m, n);
  }
}

}  // namespace tilewright
