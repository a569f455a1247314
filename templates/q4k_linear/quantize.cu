// What q4k_linear's products need beside the weights: quantized activations for each call; once, for W in super-blocks,
// row bounds (expand.cu makes those of expanded W).
//
// Activations: q[token, i] = round(x[token, i] / s), one scale s for the token's k or for each group of kScaleK of
// them. One block per token; a thread keeps its vectors of 8 values in registers between the two passes, so that x is
// read once.
//
//   e4m3  s = max |x| / 448. operand_bytes.cuh has the order of the bytes.
//   s8    s = max |x| / 127, unless max |x| is more than kUsual times the mean of |x|: outliers. Then s is kUsual means
//         / 127, or max |x| / 8128 if that is more, and what rounds to more than 127 units is stored as 64 h + l, l in
//         the matrix of all values and h in a second one, which is zero elsewhere. A bit per token and 64 k says where
//         h is not zero, a byte per token whether it has any (fused_sm90_outliers.cuh reads both). One scale for
//         everything instead would err by 4 to 7 % where 0.5 % of the channels are 30 times as large as the others.
//
// A group of zeros gets the scale 0 and zeros.
//
// Row bounds (row_bounds.cuh): r[n] >= |w[n, :]| and 1 / r (0 for a zero row), both padded with zeros.
#include "templates/common/numeric.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/operand_bytes.cuh"
#include "templates/q4k_linear/q4k_block.cuh"
#include "templates/q4k_linear/row_bounds.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3), kScaleK (0 a scale per token, 256 or 4096 one per token and as many k).
static_assert(kArithmetic == 0 || kArithmetic == 1, "activations are s8 or e4m3");
static_assert(kScaleK == 0 || kScaleK == 256 || kScaleK == 4096, "a word of flags has those of whole groups");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr float kTopActivation = kIsS8 ? 127.0f : 448.0f;
constexpr int kBlockVectors = kBlockWeights / 8;  // of a super-block, and of a warp
constexpr int kWordVectors = kWordBlocks * kBlockVectors;
constexpr int kGroupBlocks = kScaleK == 0 ? 1 : kScaleK / kBlockWeights;  // super-blocks of a scale, if not all of k
constexpr float kUsual = 8.0f;     // means of |x|: 6.4 deviations of normal values, which no tame row reaches
constexpr float kTopSplit = 8128;  // 64 times the largest h

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

__device__ __forceinline__ float peakOf(uint4 v) {
  const U32 top = maxAbsBf162(maxAbsBf162(v.x, v.y), maxAbsBf162(v.z, v.w));
  return fmaxf(bf16LowToFloat(top), bf16HighToFloat(top));
}

__device__ __forceinline__ float sumOf(uint4 v) {
  const auto pair = [](U32 w) { return fabsf(bf16LowToFloat(w)) + fabsf(bf16HighToFloat(w)); };
  return (pair(v.x) + pair(v.y)) + (pair(v.z) + pair(v.w));
}

/// What a group's scale follows from.
struct Magnitude {
  float peak = 0.0f;  // max |x|
  float sum = 0.0f;   // of |x|, always added in the same order; 0 where nobody needs it

  __device__ __forceinline__ void add(uint4 v) {
    peak = fmaxf(peak, peakOf(v));
    if constexpr (kIsS8) sum += sumOf(v);
  }
  /// Over the warp, or each kLanes of it.
  template <int kLanes = 32>
  __device__ __forceinline__ void addLanes() {
#pragma unroll
    for (int d = kLanes / 2; d > 0; d /= 2) {
      if constexpr (kLanes < 32) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, d));
      if constexpr (kIsS8) sum += __shfl_xor_sync(~0u, sum, d);
    }
    // The bits of numbers that are not negative order as integers do.
    if constexpr (kLanes == 32) peak = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(peak)));
  }
  /// Over the block; every thread calls it. `partials` has room for 32 and is free after the next block barrier.
  __device__ __forceinline__ void addThreads(Magnitude* partials) {
    addLanes();
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = *this;
    __syncthreads();
    *this = threadIdx.x % 32 < blockDim.x / 32 ? partials[threadIdx.x % 32] : Magnitude{};
    addLanes();
  }
};

/// The scale of a group.
struct Scale {
  float scale, inverse;
  bool hasOutliers = false;

  __device__ __forceinline__ Scale(const Magnitude& magnitude, int count) {
    float top = magnitude.peak;
    if constexpr (kIsS8) {
      const float usual = kUsual / static_cast<float>(count) * magnitude.sum;
      hasOutliers = magnitude.peak > usual;
      if (hasOutliers) top = fmaxf(usual, magnitude.peak * (kTopActivation / kTopSplit));
    }
    scale = top / kTopActivation;
    inverse = top > 0.0f ? kTopActivation / top : 0.0f;
  }
};

__device__ __forceinline__ uint2 quantize8(uint4 v, float inverse) {
  const float s = inverse;
  return {packOperands<kIsS8>(bf16LowToFloat(v.x) * s, bf16HighToFloat(v.x) * s, bf16LowToFloat(v.y) * s,
                              bf16HighToFloat(v.y) * s),
          packOperands<kIsS8>(bf16LowToFloat(v.z) * s, bf16HighToFloat(v.z) * s, bf16LowToFloat(v.w) * s,
                              bf16HighToFloat(v.w) * s)};
}

/// Two values as 64 h + l; adds byte i and i + 1 to what the words hold.
__device__ __forceinline__ void split2(U32 pair, float inverse, int i, U32& lower, U32& upper) {
  const float values[2] = {bf16LowToFloat(pair) * inverse, bf16HighToFloat(pair) * inverse};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int v = __float_as_int(values[j] + kRound) - __float_as_int(kRound);
    const int h = abs(v) > 127 ? (v + 32) >> 6 : 0;
    lower |= (static_cast<U32>(v - 64 * h) & 255) << 8 * (i + j);
    upper |= (static_cast<U32>(h) & 255) << 8 * (i + j);
  }
}

/// What the product finds zeroed: the counters of split tiles, and the scales of tokens past the last.
__device__ __forceinline__ void clearForProduct(const QuantizeArguments& p) {
  const I64 thread = static_cast<I64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const I64 threads = static_cast<I64>(gridDim.x) * blockDim.x;
  for (I64 i = thread; i < p.counterCount; i += threads) p.counters[i] = 0;
  const int padding = p.mPadded - p.m, groups = kScaleK == 0 ? 1 : ceilDiv(p.k, kScaleK);
  for (I64 i = thread; i < static_cast<I64>(padding) * groups; i += threads) {
    p.scales[i / padding * p.mPadded + p.m + i % padding] = 0.0f;
  }
  if constexpr (kIsS8) {
    const int words = ceilDiv(p.k, kWordBlocks * kBlockWeights);
    for (I64 i = thread; i < padding; i += threads) p.outlierTokens[p.m + i] = 0;
    for (I64 i = thread; i < static_cast<I64>(padding) * words; i += threads) {
      p.outlierChunks[i / padding * p.mPadded + p.m + i % padding] = 0;
    }
  }
}

/// Where the scale of a token's group is kept.
__device__ __forceinline__ float& scaleOf(const QuantizeArguments& p, int token, int group) {
  return p.scales[static_cast<I64>(group) * p.mPadded + token];
}

/// Where the flags of 16 super-blocks are kept.
__device__ __forceinline__ U64& flagsOf(const QuantizeArguments& p, int token, int word) {
  return p.outlierChunks[static_cast<I64>(word) * p.mPadded + token];
}

/// Stores vector i of a token; chunks of the warp's super-block that have outliers get their bits in `flags`, in shared
/// memory.
__device__ __forceinline__ void storeVector(const QuantizeArguments& p, int token, int i, uint4 v, const Scale& scale,
                                            U64& flags) {
  const I64 at = static_cast<I64>(token) * (p.k / 8) + i;
  if constexpr (!kIsS8) {
    p.quantized[at] = quantize8(v, scale.inverse);
  } else {
    uint2* const upper = p.quantized + static_cast<I64>(p.m) * (p.k / 8) + at;
    if (!scale.hasOutliers) {
      p.quantized[at] = quantize8(v, scale.inverse);
      __stcs(upper, make_uint2(0, 0));  // rarely read
      return;
    }
    uint2 l{}, h{};
    split2(v.x, scale.inverse, 0, l.x, h.x), split2(v.y, scale.inverse, 2, l.x, h.x);
    split2(v.z, scale.inverse, 0, l.y, h.y), split2(v.w, scale.inverse, 2, l.y, h.y);
    p.quantized[at] = l;
    *upper = h;
    // Eight lanes hold a chunk.
    const U32 lanes = __ballot_sync(~0u, (h.x | h.y) != 0);
    if (lanes != 0 && threadIdx.x % 32 == 0) {
      U64 chunks = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) chunks |= static_cast<U64>((lanes >> 8 * c & 255) != 0) << c;
      atomicOr(&flags, chunks << 4 * (i / kBlockVectors % kWordBlocks));
    }
  }
}

/// Loads kSteps vectors of 8 values a thread, of the token's from `begin` on, zeros past its end.
template <int kSteps>
__device__ __forceinline__ void loadVectors(const QuantizeArguments& p, int token, int begin, uint4 (&v)[kSteps]) {
  const uint4* x = p.x + token * p.xStride;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int i = begin + threadIdx.x + s * blockDim.x;
    v[s] = i < p.k / 8 ? x[i] : make_uint4(0, 0, 0, 0);
  }
}

/// Quantizes those vectors, which begin at a group's first; the token's last group may be shorter than kScaleK.
/// `magnitudes` and `flags` are those of the super-blocks and words from `begin` on.
// NOTE: a warp's vectors are one super-block's; those of a group are added up by each warp that needs the sum.
template <int kSteps>
__device__ __forceinline__ void quantizeGroups(const QuantizeArguments& p, int token, int begin,
                                               const uint4 (&v)[kSteps], Magnitude* magnitudes, U64* flags) {
  constexpr int kGroupVectors = kGroupBlocks * kBlockVectors;
  const int vectors = p.k / 8;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int i = threadIdx.x + s * blockDim.x;
    Magnitude magnitude;
    magnitude.add(v[s]);
    magnitude.addLanes();
    if (threadIdx.x % 32 == 0 && begin + i < vectors) magnitudes[i / kBlockVectors] = magnitude;
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int i = threadIdx.x + s * blockDim.x, group = i / kGroupVectors, at = begin + i;
    if (at >= vectors) continue;
    const int blocks = min(kGroupBlocks, (vectors - begin) / kBlockVectors - group * kGroupBlocks);
    const int mine = threadIdx.x % kGroupBlocks;
    Magnitude magnitude = mine < blocks ? magnitudes[group * kGroupBlocks + mine] : Magnitude{};
    magnitude.addLanes<kGroupBlocks>();
    const Scale scale(magnitude, blocks * kBlockWeights);
    if (at % kGroupVectors == 0) scaleOf(p, token, at / kGroupVectors) = scale.scale;
    storeVector(p, token, at, v[s], scale, flags[i / kWordVectors]);
  }
}

/// Hands `count` words of flags over, the first of them the token's word `first`. Returns in the first warp whether any
/// flag is set; elsewhere nothing of use. Every thread calls it, behind the stores of what the words are of.
__device__ __forceinline__ bool storeFlags(const QuantizeArguments& p, int token, int first, int count,
                                           const U64* flags) {
  __syncthreads();
  const bool isWord = threadIdx.x < count;
  if (isWord) flagsOf(p, token, first + threadIdx.x) = flags[threadIdx.x];
  return __any_sync(~0u, isWord && flags[threadIdx.x] != 0);
}

/// kSteps vectors of 8 values per thread cover a token. Whole warps drop out together: k is a multiple of 256.
template <int kSteps>
__device__ __forceinline__ void quantizeToken(const QuantizeArguments& p) {
  constexpr int kWords = kSteps * 1024 / kWordVectors;
  __shared__ Magnitude magnitudes[kSteps * 32];
  __shared__ U64 flags[kWords];
  letNextKernelStart();
  clearForProduct(p);
  const int token = blockIdx.x, vectors = p.k / 8;
  uint4 v[kSteps];
  loadVectors(p, token, 0, v);
  if (threadIdx.x < kWords) flags[threadIdx.x] = 0;

  if constexpr (kScaleK == 0) {
    Magnitude magnitude;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) magnitude.add(v[s]);
    magnitude.addThreads(magnitudes);
    const Scale scale(magnitude, p.k);
    if (threadIdx.x == 0) scaleOf(p, token, 0) = scale.scale;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = threadIdx.x + s * blockDim.x;
      if (i < vectors) storeVector(p, token, i, v[s], scale, flags[i / kWordVectors]);
    }
  } else {
    quantizeGroups(p, token, 0, v, magnitudes, flags);
  }

  if constexpr (kIsS8) {
    const bool hasOutliers = storeFlags(p, token, 0, ceilDiv(vectors, kWordVectors), flags);
    if (threadIdx.x == 0) p.outlierTokens[token] = hasOutliers;
  }
}

/// Tokens too long for registers, in spans of a vector a thread: with one scale a token x is read twice. The block has
/// 1024 threads.
__device__ __forceinline__ void quantizeLongToken(const QuantizeArguments& p) {
  constexpr int kSpan = 1024, kWords = kSpan / kWordVectors;
  __shared__ Magnitude magnitudes[32];
  __shared__ U64 flags[kWords];
  letNextKernelStart();
  clearForProduct(p);
  const int token = blockIdx.x, vectors = p.k / 8;
  uint4 v[1];

  // quantize(begin) does so with the vectors of a span.
  const auto quantizeSpans = [&](auto quantize) {
    bool hasOutliers = false;
    for (int begin = 0; begin < vectors; begin += kSpan) {
      loadVectors(p, token, begin, v);
      if (threadIdx.x < kWords) flags[threadIdx.x] = 0;
      __syncthreads();
      quantize(begin);
      if constexpr (kIsS8) {
        const int words = min(kWords, ceilDiv(vectors - begin, kWordVectors));
        hasOutliers |= storeFlags(p, token, begin / kWordVectors, words, flags);
      }
      __syncthreads();  // what is shared is free for the next span
    }
    if (kIsS8 && threadIdx.x == 0) p.outlierTokens[token] = hasOutliers;
  };

  if constexpr (kScaleK == 0) {
    Magnitude magnitude;
    for (int begin = 0; begin < vectors; begin += kSpan) {
      loadVectors(p, token, begin, v);
      magnitude.add(v[0]);
    }
    magnitude.addThreads(magnitudes);
    const Scale scale(magnitude, p.k);
    if (threadIdx.x == 0) scaleOf(p, token, 0) = scale.scale;
    quantizeSpans([&](int begin) {
      const int i = begin + threadIdx.x;
      if (i < vectors) storeVector(p, token, i, v[0], scale, flags[threadIdx.x / kWordVectors]);
    });
  } else {
    quantizeSpans([&](int begin) { quantizeGroups(p, token, begin, v, magnitudes, flags); });
  }
}

}  // namespace tilewright

using namespace tilewright;

extern "C" __global__ void __launch_bounds__(1024) quantizeActivations1(const QuantizeArguments p) {
  quantizeToken<1>(p);
}
extern "C" __global__ void __launch_bounds__(1024) quantizeActivations2(const QuantizeArguments p) {
  quantizeToken<2>(p);
}
extern "C" __global__ void __launch_bounds__(1024) quantizeActivations4(const QuantizeArguments p) {
  quantizeToken<4>(p);
}
extern "C" __global__ void __launch_bounds__(1024) quantizeActivationsLong(const QuantizeArguments p) {
  quantizeLongToken(p);
}

/// For a product whose activations were quantized by another call.
extern "C" __global__ void __launch_bounds__(1024) clearCounters(U32* counters, int count) {
  letNextKernelStart();
  for (int i = threadIdx.x; i < count; i += blockDim.x) counters[i] = 0;
}

/// One warp per row; bounds and inverses are [nPadded].
extern "C" __global__ void __launch_bounds__(256)
    q4kRowBounds(const U8* w, float* bounds, float* inverses, int n, int nPadded, int blocks) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= nPadded) return;
  const U8* source = w + static_cast<I64>(row) * blocks * kBlockBytes;
  const float bound = warpMaximum(row < n ? boundOfBlocks(source, blocks, lane, 32) : 0.0f);
  if (lane == 0) storeBound(bounds, inverses, row, bound);
}
