// The 8-bit activations of fused_sm90.cu and two_pass_sm90.cu: how quantize.cu stores them, and the launches that make
// them.
//
//   values  [m, k] bytes; s8: then as many upper bits of outliers
//   scales  FP32 [m padded], or [k / scale_k rounded up, m padded]
//   flags   s8: a byte per token, not 0 if it has outliers, [m padded]; then words of 16 super-blocks, four bits each,
//           [k / 4096 rounded up, m padded], whatever scale_k is
//
// Nothing of this depends on the tile: m is padded for a tile of any height, so that products with different tiles, and
// of different layers, read the same activations.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/problem.h"
#include "templates/launch.h"
#include "templates/q4k_linear/fused_tile.h"

namespace tilewright {

/// Kernels of quantize.cu, in its request's order.
enum QuantizeKernel : int {
  kRowBounds,
  kClearCounters,
  kQuantize1,
  kQuantize2,
  kQuantize4,
  kQuantizeLong,
  kQuantizeKernels
};

/// As quantize.cu declares it.
struct QuantizeArguments {
  const void* x;
  void* quantized;
  float* scales;
  std::uint8_t* outlierTokens;
  std::uint64_t* outlierChunks;
  std::uint32_t* counters;
  std::int64_t xStride;
  std::int32_t m, k, mPadded, counterCount;
};

/// Where what lies in a buffer of activations; all zero for bf16.
struct FusedActivations {
  std::string_view format;  ///< as Template::activationFormat has it
  std::int64_t mPadded = 0, valueBytes = 0, scaleBytes = 0, flagBytes = 0;

  FusedActivations(const FusedTile& tile, const LinearShape& shape);

  /// A multiple of 256.
  std::int64_t bytes() const { return valueBytes + scaleBytes + flagBytes; }
  template <typename Byte>
  Byte* scales(Byte* buffer) const {
    return buffer + valueBytes;
  }
  template <typename Byte>
  Byte* flags(Byte* buffer) const {
    return buffer + valueBytes + scaleBytes;
  }
  /// `mPadded` is a multiple of 16.
  template <typename Byte>
  Byte* flagWords(Byte* buffer) const {
    return flags(buffer) + mPadded;
  }
};

/// Counters in the workspace that a product finds zeroed.
struct FusedCounters {
  std::uint32_t* counters = nullptr;
  std::int64_t count = 0;
};

/// Appends the quantization of x into `buffer`, which zeroes the counters too.
void encodeQuantization(const LinearShape& shape, const LinearOperands& operands, const FusedActivations& layout,
                        void* buffer, FusedCounters counters, LaunchList& launches);

/// Appends a kernel that does nothing but zero the counters, as few as tiles are. Like the quantization it lets a
/// dependent product start at once.
void encodeClear(FusedCounters counters, LaunchList& launches);

}  // namespace tilewright
