// What q4k_linear's fused kernel needs beside the weights: quantized activations for each call, row bounds of W once.
//
// Activations: q[token, i] = round(x[token, i] / s), s = max |x[token, :]| / 127 (s8) or / 448 (e4m3), the maximum over
// the token's k, or over each kScaleK of them. One block per token; a thread keeps its vectors of 8
// values in registers between the two passes, so that x is read once. E4M3 bytes of each four are stored in the order
// 0, 2, 1, 3, in which the product converts its weights. An all-zero group gets the scale 0 and zeros.
//
// Row bounds: r[n] >= |w[n, :]| from the super-blocks' headers alone: a sub-block's values lie between -dmin mn and
// 15 d sc - dmin mn. Stored are r and 1 / r (0 for a zero row), both padded with zeros.
#include "templates/common/numeric.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/q4k_linear/q4k_block.cuh"

// Parameters: kArithmetic (0 s8, 1 e4m3), kScaleK (0 a scale per token, else one per token and as many k).
static_assert(kArithmetic == 0 || kArithmetic == 1, "activations are s8 or e4m3");
static_assert(kScaleK % 256 == 0, "a warp's 32 vectors of 8 lie in one group");

namespace tilewright {

constexpr bool kIsS8 = kArithmetic == 0;
constexpr float kTopActivation = kIsS8 ? 127.0f : 448.0f;
constexpr int kGroupVectors = kScaleK == 0 ? 1 << 28 : kScaleK / 8;  // of a scale

struct QuantizeArguments {
  const uint4* x;    // [m, k] BF16, rows of xStride vectors of 8
  uint2* quantized;  // [m, k] bytes
  float* scales;     // [m padded], or [k / 256, m padded]
  U32* counters;     // to be zeroed for the product
  I64 xStride;       // vectors
  I32 m, k, mPadded, counterCount;
};

__device__ __forceinline__ float peakOf(uint4 v) {
  const U32 top = maxAbsBf162(maxAbsBf162(v.x, v.y), maxAbsBf162(v.z, v.w));
  return fmaxf(bf16LowToFloat(top), bf16HighToFloat(top));
}

__device__ __forceinline__ float warpMaximum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

/// The maximum over the block; every thread calls it.
__device__ __forceinline__ float blockMaximum(float v) {
  __shared__ float warps[32];
  v = warpMaximum(v);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  return warpMaximum(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0.0f);
}

/// Four values to four bytes.
__device__ __forceinline__ U32 quantize4(float a, float b, float c, float d) {
  if constexpr (kIsS8) {
    // The sum's low byte is the value rounded to nearest.
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
    const U32 low = __byte_perm(__float_as_uint(a + kRound), __float_as_uint(b + kRound), 0x0040);
    const U32 high = __byte_perm(__float_as_uint(c + kRound), __float_as_uint(d + kRound), 0x0040);
    return __byte_perm(low, high, 0x5410);
  } else {
    return packE4m3(a, c) | static_cast<U32>(packE4m3(b, d)) << 16;
  }
}

__device__ __forceinline__ uint2 quantize8(uint4 v, float inverse) {
  const float s = inverse;
  return {
      quantize4(bf16LowToFloat(v.x) * s, bf16HighToFloat(v.x) * s, bf16LowToFloat(v.y) * s, bf16HighToFloat(v.y) * s),
      quantize4(bf16LowToFloat(v.z) * s, bf16HighToFloat(v.z) * s, bf16LowToFloat(v.w) * s, bf16HighToFloat(v.w) * s)};
}

__device__ __forceinline__ float inverseOf(float peak) {
  return peak > 0.0f ? kTopActivation / peak : 0.0f;
}

/// What the product finds zeroed: the counters of split tiles, and the scales of tokens past the last.
__device__ __forceinline__ void clearForProduct(const QuantizeArguments& p) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  const int threads = gridDim.x * blockDim.x;
  for (int i = thread; i < p.counterCount; i += threads) p.counters[i] = 0;
  const int padding = p.mPadded - p.m, groups = kScaleK == 0 ? 1 : ceilDiv(p.k, kScaleK);
  for (int i = thread; i < padding * groups; i += threads) {
    p.scales[static_cast<I64>(i / padding) * p.mPadded + p.m + i % padding] = 0.0f;
  }
}

/// kSteps vectors of 8 values per thread cover a token.
template <int kSteps>
__device__ __forceinline__ void quantizeToken(const QuantizeArguments& p) {
  letNextKernelStart();
  clearForProduct(p);
  const int token = blockIdx.x, vectors = p.k / 8;
  const uint4* x = p.x + token * p.xStride;

  uint4 v[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int i = threadIdx.x + s * blockDim.x;
    v[s] = i < vectors ? x[i] : make_uint4(0, 0, 0, 0);
  }
  float peak[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) peak[s] = peakOf(v[s]);
  if constexpr (kScaleK == 0) {
    float top = peak[0];
#pragma unroll
    for (int s = 1; s < kSteps; ++s) top = fmaxf(top, peak[s]);
    top = blockMaximum(top);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) peak[s] = top;
    if (threadIdx.x == 0) p.scales[token] = top / kTopActivation;
  } else if constexpr (kScaleK == 256) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) peak[s] = warpMaximum(peak[s]);
  } else {
    // Peaks are not negative, so their bits order as integers.
    __shared__ int peaks[kSteps * 1024 / kGroupVectors + 1];
    if (threadIdx.x < kSteps * 1024 / kGroupVectors + 1) peaks[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = threadIdx.x + s * blockDim.x;
      const float top = warpMaximum(peak[s]);
      if (threadIdx.x % 32 == 0 && i < vectors) atomicMax(&peaks[i / kGroupVectors], __float_as_int(top));
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = threadIdx.x + s * blockDim.x;
      peak[s] = __int_as_float(peaks[min(i, vectors - 1) / kGroupVectors]);
    }
  }

  uint2* q = p.quantized + static_cast<I64>(token) * vectors;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int i = threadIdx.x + s * blockDim.x;
    if (i < vectors) {
      q[i] = quantize8(v[s], inverseOf(peak[s]));
      if (kScaleK != 0 && i % kGroupVectors == 0) {
        p.scales[static_cast<I64>(i / kGroupVectors) * p.mPadded + token] = peak[s] / kTopActivation;
      }
    }
  }
}

/// Tokens too long for registers: x is read twice.
__device__ __forceinline__ void quantizeLongToken(const QuantizeArguments& p) {
  letNextKernelStart();
  clearForProduct(p);
  const int token = blockIdx.x, vectors = p.k / 8;
  const uint4* x = p.x + token * p.xStride;
  uint2* q = p.quantized + static_cast<I64>(token) * vectors;
  if constexpr (kScaleK == 256) {
    // A warp's 32 vectors are one group, and whole warps drop out together: vectors is a multiple of 32.
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
      const uint4 v = x[i];
      const float top = warpMaximum(peakOf(v));
      if (threadIdx.x % 32 == 0) p.scales[static_cast<I64>(i / 32) * p.mPadded + token] = top / kTopActivation;
      q[i] = quantize8(v, inverseOf(top));
    }
  } else {
    const int group = min(vectors, kGroupVectors);
    for (int begin = 0; begin < vectors; begin += group) {
      const int end = min(begin + group, vectors);
      float top = 0.0f;
      for (int i = begin + threadIdx.x; i < end; i += blockDim.x) top = fmaxf(top, peakOf(x[i]));
      top = blockMaximum(top);
      if (threadIdx.x == 0) p.scales[static_cast<I64>(begin / group) * p.mPadded + token] = top / kTopActivation;
      for (int i = begin + threadIdx.x; i < end; i += blockDim.x) q[i] = quantize8(x[i], inverseOf(top));
      __syncthreads();  // blockMaximum's memory is used again
    }
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

/// One warp per row; bounds and inverses are [nPadded].
extern "C" __global__ void __launch_bounds__(256)
    q4kRowBounds(const U8* w, float* bounds, float* inverses, int n, int nPadded, int blocks) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= nPadded) return;
  float peak = 0.0f;
  if (row < n) {
    for (int b = lane; b < blocks; b += 32) {
      const U8* block = w + (static_cast<I64>(row) * blocks + b) * kBlockBytes;
      const BlockFactors f = unpackFactors(*reinterpret_cast<const uint4*>(block), 1.0f);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float least = -f.minimum(j), most = fmaf(15.0f, f.scale(j), least);
        peak = fmaxf(peak, fmaxf(fabsf(least), fabsf(most)));
      }
    }
  }
  peak = warpMaximum(peak);
  if (lane == 0) {
    bounds[row] = peak;
    inverses[row] = peak > 0.0f ? 1.0f / peak : 0.0f;
  }
}
