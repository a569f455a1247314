// Tensor maps of attention's operands, and the problems that can have them.
//
// A [batch, heads, length, head_dim] tensor becomes a map of rank 4, (head_dim, length, heads, batch) from the inside,
// so that coordinates stay below 2^32 however large the tensor, and rows beyond the length read as zeros. Boxes are 64
// columns wide: 128 bytes, one span of the 128-byte swizzle.
#pragma once

#include <optional>

#include "base/device_info.h"
#include "base/problem.h"
#include "templates/launch.h"
#include "templates/template.h"

namespace tilewright {

struct AttentionMapSizes {
  std::int64_t headDim, length, heads, batch;
};

/// Strides of a dimension of size 1 are never used and may hold anything; the map gets a valid one.
TensorMap attentionMap(const void* base, const Strides& strides, const AttentionMapSizes& sizes, std::uint32_t boxRows,
                       std::uint32_t boxHeads);

/// Maps of K and V in boxes of `boxRows` keys. A buffer without keys has no address that a map could hold: it is
/// described as one row at q, which no row's mask lets through.
TensorMap attentionKeyMap(const Problem& problem, const AttentionOperands& operands, std::uint32_t boxRows);
TensorMap attentionValueMap(const Problem& problem, const AttentionOperands& operands, std::uint32_t boxRows);

/// The same tensor as (64, head_dim / 64, length, heads, batch), in boxes of whole rows: memory is then read in its own
/// order.
TensorMap byWholeRows(const TensorMap& map);

/// What a Hopper template with tensor maps refuses: another operation, another target than sm_90a, a head dim other
/// than 64, 128 or 256, unaligned operands, lengths from 2^30 on.
std::optional<Refusal> refusesHopperAttention(const Template& kernelTemplate, const Problem& problem,
                                              const DeviceInfo& device);

}  // namespace tilewright
