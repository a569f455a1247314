#include "templates/attention/tensor_maps.h"

#include <algorithm>

namespace tilewright {
namespace {

constexpr std::int64_t kBf16Bytes = 2;
constexpr std::uint32_t kBoxColumns = 64;

// The map of one of K and V, whose sizes are the same.
TensorMap cacheMap(const Problem& problem, const AttentionOperands& operands, const void* base, const Strides& strides,
                   std::uint32_t boxRows) {
  const AttentionShape& shape = problem.attention;
  if (operands.capacity == 0) return attentionMap(operands.q, {}, {shape.headDim, 1, 1, 1}, boxRows, 1);
  return attentionMap(base, strides, {shape.headDim, operands.capacity, shape.kvHeads, shape.batch}, boxRows, 1);
}

}  // namespace

TensorMap attentionMap(const void* base, const Strides& strides, const AttentionMapSizes& sizes, std::uint32_t boxRows,
                       std::uint32_t boxHeads) {
  const auto bytes = [&](std::int64_t size, std::int64_t stride) {
    return static_cast<std::uint64_t>((size > 1 ? stride : sizes.headDim) * kBf16Bytes);
  };
  TensorMap map;
  map.base = base;
  map.element = TensorMap::Element::kBf16;
  map.rank = 4;
  map.size = {static_cast<std::uint64_t>(sizes.headDim), static_cast<std::uint64_t>(sizes.length),
              static_cast<std::uint64_t>(sizes.heads), static_cast<std::uint64_t>(sizes.batch)};
  map.strideBytes = {bytes(sizes.length, strides.row), bytes(sizes.heads, strides.head),
                     bytes(sizes.batch, strides.batch)};
  map.box = {kBoxColumns, boxRows, boxHeads, 1};
  map.swizzle = TensorMap::Swizzle::k128;
  map.promotion = TensorMap::L2Promotion::k256;
  return map;
}

TensorMap attentionKeyMap(const Problem& problem, const AttentionOperands& operands, std::uint32_t boxRows) {
  return cacheMap(problem, operands, operands.k, operands.kStride, boxRows);
}

TensorMap attentionValueMap(const Problem& problem, const AttentionOperands& operands, std::uint32_t boxRows) {
  return cacheMap(problem, operands, operands.v, operands.vStride, boxRows);
}

TensorMap byWholeRows(const TensorMap& map) {
  const std::uint64_t spans = map.size[0] / kBoxColumns;
  TensorMap rows = map;
  rows.rank = 5;
  rows.size = {kBoxColumns, spans, map.size[1], map.size[2], map.size[3]};
  rows.strideBytes = {kBoxColumns * kBf16Bytes, map.strideBytes[0], map.strideBytes[1], map.strideBytes[2]};
  rows.box = {kBoxColumns, static_cast<std::uint32_t>(spans), map.box[1], map.box[2], map.box[3]};
  return rows;
}

std::optional<Refusal> refusesHopperAttention(const Template& kernelTemplate, const Problem& problem,
                                              const DeviceInfo& device) {
  if (auto refusal = refusesOperation(kernelTemplate, problem)) return refusal;
  const AttentionShape& shape = problem.attention;
  if (device.kind != DeviceKind::kCuda || device.target != "sm_90a") {
    return Refusal{"target", fmt::format("the target is {}, must be sm_90a", device.target)};
  }
  if (problem.alignment != Alignment::k16) {
    return Refusal{
        "alignment",
        "bases or strides are not multiples of 16 bytes, or an inner stride is not 1; tensor maps need both"};
  }
  if (shape.headDim != 64 && shape.headDim != 128 && shape.headDim != 256) {
    return Refusal{"head_dim", fmt::format("head_dim is {}, must be 64, 128 or 256", shape.headDim)};
  }
  // Row, key and tile numbers are 32-bit integers in the kernel.
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  for (const auto& [name, value] :
       {std::pair{"q_len", shape.qLen}, std::pair{"kv_len", shape.kvLen},
        std::pair{"batch * q_heads * (q_len / 64 + 1)", shape.batch * shape.qHeads * (shape.qLen / 64 + 1)}}) {
    if (value >= kLimit) return Refusal{"sizes", fmt::format("{} is {}, must be below 2^30", name, value)};
  }
  return std::nullopt;
}

}  // namespace tilewright
