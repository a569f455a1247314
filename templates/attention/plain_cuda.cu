// attention on any GPU: out = softmax(scale . Q K^T + mask) V and its log-sum-exp, for any strides, lengths and
// alignment and every head dim that is a multiple of 8 up to 256.
//
// A block owns kRows = 16 kWarps query rows of one head of one batch entry, 16 rows a warp, and steps through the keys
// in tiles of kTileKv that all its warps share:
//
//   shared memory   Q [kRows, d]   K [kTileKv, d]   V [kTileKv, d]        rows padded by 16 bytes, d rounded up to 16
//   registers       O [16, d] and S [16, kTileKv] of each warp, running maximum and sum of each row
//
//   S = Q K^T; p = exp2(S scale log2(e) - max); O = O exp2(old max - max) + P V; the fragments of S are those of P
//
// Row m sees key n iff n < length and, causally, n <= length - q_len + m; length is kv_len of the batch entry clamped
// to [0, capacity], read here. Tiles beyond the last visible key of the block are skipped, invisible keys of a tile get
// score -inf, rows without keys give zeros and -inf. Keys from `length` on are zero in shared memory and never read.
#include "templates/common/mma.cuh"

using namespace tilewright;

// Parameters, from the host half:
//   kWarps      warps of a block, 16 query rows each
//   kTileKv     keys per step
//   kHeadDim    d
//   kCausal     1: causal mask, aligned bottom-right
//   kAligned    1: bases and leading strides are multiples of 16 bytes and inner strides 1
static_assert(kHeadDim % 8 == 0 && kHeadDim >= 8 && kHeadDim <= 256, "the head dim is a multiple of 8 up to 256");
static_assert(kTileKv % 16 == 0, "a tile of keys is whole pairs of MMA tiles");

constexpr int kRows = 16 * kWarps;
constexpr int kThreads = 32 * kWarps;
constexpr int kDim = roundUp(kHeadDim, 16);  // MMA depth of Q K^T, width of P V
constexpr int kPitch = kDim + 8;             // elements between rows in shared memory
constexpr int kSharedBytes = (kRows + 2 * kTileKv) * kPitch * 2;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float minusInfinity() {
  return __uint_as_float(0xff800000);
}

struct Tensor {
  const U16* base;
  I64 batch, head, row, column;  // strides in elements
};

struct Sizes {
  I64 batch, qHeads, kvHeads, qLen, capacity;
};

/// Copies rows [first, first + kCount) of a [rows, d] matrix to shared memory; rows beyond `rows` and columns beyond d
/// are 0.
template <int kCount>
__device__ __forceinline__ void loadRows(U16* tile, const U16* base, const Tensor& tensor, I64 first, I64 rows) {
  constexpr int kChunksPerRow = kDim / 8;
  for (int chunk = threadIdx.x; chunk < kCount * kChunksPerRow; chunk += kThreads) {
    const I64 row = first + chunk / kChunksPerRow;
    const int column = chunk % kChunksPerRow * 8;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < rows && column < kHeadDim) {
      const U16* from = base + row * tensor.row + column * tensor.column;
      if (kAligned != 0) {
        value = *reinterpret_cast<const uint4*>(from);
      } else {
        U32 words[4];
        for (int j = 0; j < 4; ++j) {
          words[j] = from[2 * j * tensor.column] | (static_cast<U32>(from[(2 * j + 1) * tensor.column]) << 16);
        }
        value = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
    *reinterpret_cast<uint4*>(tile + chunk / kChunksPerRow * kPitch + column) = value;
  }
}

__device__ __forceinline__ float quadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
}
__device__ __forceinline__ float quadSum(float value) {
  value += __shfl_xor_sync(0xffffffff, value, 1);
  return value + __shfl_xor_sync(0xffffffff, value, 2);
}

/// The state of a warp's 16 rows: index 0 is row lane / 4, index 1 the row 8 below.
struct RowState {
  float output[kDim / 8][4] = {};
  float maximum[2] = {minusInfinity(), minusInfinity()};  // of score * scale * log2(e)
  float sum[2] = {};                                      // of this lane's columns
};

/// Takes one tile of keys into the rows' state. `visible[i]` counts the keys of this tile that row i sees, from the
/// first.
__device__ __forceinline__ void step(RowState& state, const U16* qRow, const U16* kTile, const U16* vTile,
                                     float scaleLog2, const I64 (&visible)[2]) {
  const int lane = threadIdx.x % 32;
  float scores[kTileKv / 8][4] = {};
  const U16* kRow = kTile + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
#pragma unroll 2
  for (int c = 0; c < kDim; c += 16) {
    U32 q[4];
    loadMatrices(q, qRow + c);
#pragma unroll
    for (int j = 0; j < kTileKv / 16; ++j) {
      U32 k[4];
      loadMatrices(k, kRow + j * 16 * kPitch + c);
      mmaBf16(scores[2 * j], q, k[0], k[1]);
      mmaBf16(scores[2 * j + 1], q, k[2], k[3]);
    }
  }

  // Scale, mask, and raise the running maximum.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float maximum = minusInfinity();
#pragma unroll
    for (int j = 0; j < kTileKv / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[j][2 * i + e];
        score = j * 8 + lane % 4 * 2 + e < visible[i] ? score * scaleLog2 : minusInfinity();
        maximum = fmaxf(maximum, score);
      }
    }
    const float raised = fmaxf(state.maximum[i], quadMax(maximum));
    // A row that has seen no key yet keeps its maximum of -inf; subtracting it would make NaN of its scores.
    const float shift = raised == minusInfinity() ? 0 : raised;
    const float factor = exp2f(state.maximum[i] - shift);
    state.maximum[i] = raised;
    state.sum[i] *= factor;
#pragma unroll
    for (int j = 0; j < kTileKv / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[j][2 * i + e];
        score = exp2f(score - shift);
        state.sum[i] += score;
      }
    }
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) state.output[j][2 * i] *= factor, state.output[j][2 * i + 1] *= factor;
  }

  // O += P V.
  const U16* vRow = vTile + lane % 16 * kPitch + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < kTileKv / 16; ++j) {
    const U32 p[4] = {packBf16Anywhere(scores[2 * j][0], scores[2 * j][1]),
                      packBf16Anywhere(scores[2 * j][2], scores[2 * j][3]),
                      packBf16Anywhere(scores[2 * j + 1][0], scores[2 * j + 1][1]),
                      packBf16Anywhere(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
    for (int c = 0; c < kDim / 16; ++c) {
      U32 v[4];
      loadMatricesTransposed(v, vRow + j * 16 * kPitch + c * 16);
      mmaBf16(state.output[2 * c], p, v[0], v[1]);
      mmaBf16(state.output[2 * c + 1], p, v[2], v[3]);
    }
  }
}

__device__ __forceinline__ void storeRow(const RowState& state, int i, U16* out, I64 columnStride) {
  const float sum = quadSum(state.sum[i]);
  const float inverse = sum > 0 ? 1 / sum : 0;
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
    const int column = j * 8 + threadIdx.x % 4 * 2;
    if (out == nullptr || column >= kHeadDim) continue;
    const U32 word = packBf16Anywhere(state.output[j][2 * i] * inverse, state.output[j][2 * i + 1] * inverse);
    if (kAligned != 0) {
      *reinterpret_cast<U32*>(out + column) = word;
    } else {
      out[column * columnStride] = static_cast<U16>(word),
                   out[(column + 1) * columnStride] = static_cast<U16>(word >> 16);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    attentionPlain(const Tensor q, const Tensor k, const Tensor v, const Tensor out, float* lse, const int* kvLen,
                   const Sizes sizes, float scale) {
  extern __shared__ __align__(16) U16 shared[];
  U16* qTile = shared;
  U16* kTile = qTile + kRows * kPitch;
  U16* vTile = kTile + kTileKv * kPitch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const U16* qRow = qTile + (warp * 16 + lane % 16) * kPitch + lane / 16 * 8;

  // Blocks walk the row tiles with a stride of the grid, the longest causal rows first.
  const I64 rowTiles = (sizes.qLen + kRows - 1) / kRows;
  for (I64 tile = blockIdx.x; tile < rowTiles * sizes.qHeads * sizes.batch; tile += gridDim.x) {
    const I64 firstRow = (rowTiles - 1 - tile % rowTiles) * kRows;
    const I64 head = tile / rowTiles % sizes.qHeads, batch = tile / rowTiles / sizes.qHeads;
    const I64 kvHead = head / (sizes.qHeads / sizes.kvHeads);
    I64 length = sizes.capacity;
    if (kvLen != nullptr) {
      const I64 given = kvLen[batch];
      length = given < 0 ? 0 : given < length ? given : length;
    }
    // Row m sees keys [0, limit + m), cut to [0, length].
    const I64 limit = kCausal != 0 ? length - sizes.qLen + 1 : length;
    I64 end = length;
    if (kCausal != 0) {
      const I64 lastRow = firstRow + kRows < sizes.qLen ? firstRow + kRows - 1 : sizes.qLen - 1;
      if (limit + lastRow < end) end = limit + lastRow;
    }

    const I64 rows[2] = {firstRow + warp * 16 + lane / 4, firstRow + warp * 16 + lane / 4 + 8};
    __syncthreads();
    loadRows<kRows>(qTile, q.base + batch * q.batch + head * q.head, q, firstRow, sizes.qLen);
    const U16* keys = k.base + batch * k.batch + kvHead * k.head;
    const U16* values = v.base + batch * v.batch + kvHead * v.head;
    RowState state;
    for (I64 first = 0; first < end; first += kTileKv) {
      loadRows<kTileKv>(kTile, keys, k, first, length);
      loadRows<kTileKv>(vTile, values, v, first, length);
      __syncthreads();
      I64 visible[2];
      for (int i = 0; i < 2; ++i) {
        const I64 seen = kCausal != 0 ? limit + rows[i] : length;
        visible[i] = (seen < length ? seen : length) - first;
      }
      step(state, qRow, kTile, vTile, scale * kLog2E, visible);
      __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool inside = rows[i] < sizes.qLen;
      U16* to = const_cast<U16*>(out.base) + batch * out.batch + head * out.head + rows[i] * out.row;
      storeRow(state, i, inside ? to : nullptr, out.column);
      if (lse == nullptr) continue;
      const float sum = quadSum(state.sum[i]);
      if (inside && lane % 4 == 0) {
        lse[(batch * sizes.qHeads + head) * sizes.qLen + rows[i]] =
            sum > 0 ? (state.maximum[i] + log2f(sum)) * kLn2 : minusInfinity();
      }
    }
  }
}
