#include "runtime/operands.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/integer.h"

namespace tilewright {
namespace {

constexpr std::int64_t kAligned = 16;  // Bytes.
constexpr std::int64_t kBf16Bytes = 2;

std::uintptr_t addressOf(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

Result<void> checkPointer(std::string_view name, const void* pointer, std::uintptr_t alignment) {
  if (pointer == nullptr) return fail(ErrorCode::kInvalidArgument, "cannot launch: {} is null", name);
  if (addressOf(pointer) % alignment != 0) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: {} is {}, must be a multiple of {} bytes", name, pointer,
                alignment);
  }
  return {};
}

/// One dimension of a strided tensor; strides in elements.
struct Dimension {
  std::string_view name;
  std::int64_t extent;
  std::int64_t* stride;
};

/// The distance between the tensor's first and last element may not exceed what the device holds.
Result<void> checkSpan(std::string_view name, std::span<const Dimension> dimensions, const DeviceInfo& device) {
  __int128 elements = 1;
  for (const Dimension& dimension : dimensions) {
    const __int128 stride = *dimension.stride;
    elements += (dimension.extent - 1) * (stride < 0 ? -stride : stride);
  }
  const __int128 bytes = elements * kBf16Bytes;
  const __int128 limit = device.memoryBytes > 0 ? device.memoryBytes : INT64_MAX;
  if (bytes > limit) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: {} spans {:.4g} bytes, the device has {}", name,
                static_cast<double>(bytes), static_cast<std::int64_t>(limit));
  }
  return {};
}

/// Distinct indices must reach distinct elements. Sufficient and what every layout in use fulfils: from the smallest
/// stride up, each is larger than the distance that the smaller ones cover. Called after checkSpan, so that no sum
/// overflows.
Result<void> checkDistinct(std::string_view name, std::span<const Dimension, 4> dimensions) {
  std::array<const Dimension*, 4> sorted{};
  std::size_t count = 0;
  for (const Dimension& dimension : dimensions) {
    if (dimension.extent <= 1) continue;
    std::size_t at = count++;
    for (; at > 0 && *sorted[at - 1]->stride > *dimension.stride; --at) sorted[at] = sorted[at - 1];
    sorted[at] = &dimension;
  }
  std::int64_t covered = 0;
  for (const Dimension* dimension : std::span(sorted).first(count)) {
    if (*dimension->stride <= covered) {
      return fail(ErrorCode::kInvalidArgument,
                  "cannot launch: {} overlaps itself: its {} stride is {} elements, must be more than {}", name,
                  dimension->name, *dimension->stride, covered);
    }
    covered += (dimension->extent - 1) * *dimension->stride;
  }
  return {};
}

bool isAligned(const void* pointer) {
  return addressOf(pointer) % kAligned == 0;
}
bool isAligned(std::int64_t strideElements) {
  return strideElements > 0 && strideElements * kBf16Bytes % kAligned == 0;
}

/// A single row has any stride.
void settleRows(const LinearShape& shape, LinearOperands& operands) {
  if (shape.m != 1) return;
  operands.xStride = roundUp(shape.k, kAligned / kBf16Bytes);
  operands.outStride = roundUp(shape.n, kAligned / kBf16Bytes);
}

Result<void> checkX(const LinearShape& shape, const DeviceInfo& device, LinearOperands& operands) {
  if (operands.xStride < shape.k) {
    return fail(ErrorCode::kInvalidArgument,
                "cannot launch: x's row stride is {} elements, must be at least k, which is {}", operands.xStride,
                shape.k);
  }
  std::int64_t one = 1;
  const Dimension x[] = {{"row", shape.m, &operands.xStride}, {"column", shape.k, &one}};
  return checkSpan("x", x, device);
}

Result<Alignment> checkLinear(const Problem& problem, const DeviceInfo& device, LinearOperands& operands) {
  const LinearShape& shape = problem.linear;
  TW_TRY(checkPointer("x", operands.x, kBf16Bytes));
  TW_TRY(checkPointer("w", operands.w, kBf16Bytes));
  TW_TRY(checkPointer("out", operands.out, kBf16Bytes));
  if (shape.bias) TW_TRY(checkPointer("bias", operands.bias, kBf16Bytes));
  if (!shape.bias && operands.bias != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: bias is given, but the problem has none");
  }
  settleRows(shape, operands);
  TW_TRY(checkX(shape, device, operands));
  if (operands.outStride < shape.n) {
    return fail(ErrorCode::kInvalidArgument,
                "cannot launch: out overlaps itself: its row stride is {} elements, must be at least n, which is {}",
                operands.outStride, shape.n);
  }
  std::int64_t one = 1;
  const std::int64_t rowBytes = problem.operation == Operation::kQ4kLinear ? shape.k / 256 * 144 : shape.k * kBf16Bytes;
  std::int64_t weightStride = rowBytes / kBf16Bytes;
  const Dimension w[] = {{"row", shape.n, &weightStride}, {"column", weightStride, &one}};
  const Dimension out[] = {{"row", shape.m, &operands.outStride}, {"column", shape.n, &one}};
  TW_TRY(checkSpan("w", w, device));
  TW_TRY(checkSpan("out", out, device));
  const bool aligned = isAligned(operands.x) && isAligned(operands.w) && isAligned(operands.out) &&
                       isAligned(operands.bias) && isAligned(operands.xStride) && isAligned(operands.outStride) &&
                       rowBytes % kAligned == 0;
  return aligned ? Alignment::k16 : Alignment::kAny;
}

/// Gives dimensions of at most one element a stride that is valid anywhere.
void settle(std::span<Dimension> dimensions, std::int64_t stride) {
  for (Dimension& dimension : dimensions) {
    if (dimension.extent <= 1) *dimension.stride = stride;
  }
}

Result<Alignment> checkAttention(const Problem& problem, const DeviceInfo& device, AttentionOperands& operands) {
  const AttentionShape& shape = problem.attention;
  if (operands.capacity < 0 || operands.capacity > std::int64_t{1} << 40) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: capacity is {}, must be from 0 to 2^40",
                operands.capacity);
  }
  if (!std::isfinite(operands.scale)) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: scale is {}, must be finite", operands.scale);
  }
  struct Tensor {
    std::string_view name;
    const void* base;
    std::int64_t heads, rows;
    Strides* strides;
  };
  const std::array tensors = {
      Tensor{"q", operands.q, shape.qHeads, shape.qLen, &operands.qStride},
      Tensor{"k", operands.k, shape.kvHeads, operands.capacity, &operands.kStride},
      Tensor{"v", operands.v, shape.kvHeads, operands.capacity, &operands.vStride},
      Tensor{"out", operands.out, shape.qHeads, shape.qLen, &operands.outStride},
  };
  // The maximum of scaled scores is the scaled maximum of scores only for a positive factor: part of the promise.
  bool aligned = operands.scale > 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.rows == 0) continue;  // An empty cache has no address to check.
    TW_TRY(checkPointer(tensor.name, tensor.base, kBf16Bytes));
    std::array dimensions = {Dimension{"batch", shape.batch, &tensor.strides->batch},
                             Dimension{"head", tensor.heads, &tensor.strides->head},
                             Dimension{"row", tensor.rows, &tensor.strides->row},
                             Dimension{"column", shape.headDim, &tensor.strides->column}};
    settle(std::span(dimensions).first(3), shape.headDim);
    TW_TRY(checkSpan(tensor.name, dimensions, device));
    if (tensor.name == "out") TW_TRY(checkDistinct(tensor.name, dimensions));
    aligned = aligned && isAligned(tensor.base) && tensor.strides->column == 1 && isAligned(tensor.strides->batch) &&
              isAligned(tensor.strides->head) && isAligned(tensor.strides->row);
  }
  if (shape.logSumExp) TW_TRY(checkPointer("lse", operands.lse, sizeof(float)));
  if (!shape.logSumExp && operands.lse != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: lse is given, but the problem does not ask for it");
  }
  if (operands.kvLen != nullptr) TW_TRY(checkPointer("kv_len", operands.kvLen, sizeof(std::int32_t)));
  return aligned ? Alignment::k16 : Alignment::kAny;
}

}  // namespace

bool hasEmptyOutput(const Problem& problem) {
  if (problem.isLinear()) return problem.linear.m == 0;
  return problem.attention.batch == 0 || problem.attention.qLen == 0;
}

Result<Alignment> checkOperands(const Problem& problem, const DeviceInfo& device, Operands& operands) {
  return problem.isLinear() ? checkLinear(problem, device, operands.linear)
                            : checkAttention(problem, device, operands.attention);
}

Result<void> checkActivationOperand(const Problem& problem, const DeviceInfo& device, Operands& operands) {
  LinearOperands& linear = operands.linear;
  TW_TRY(checkPointer("x", linear.x, kAligned));
  settleRows(problem.linear, linear);
  TW_TRY(checkX(problem.linear, device, linear));
  if (isAligned(linear.xStride)) return {};
  return fail(ErrorCode::kInvalidArgument, "cannot launch: x's row stride is {} elements, must be a multiple of {}",
              linear.xStride, kAligned / kBf16Bytes);
}

Result<void> checkWeights(const Problem& problem, const Operands& operands) {
  if (!problem.isLinear()) {
    return fail(ErrorCode::kInvalidArgument, "cannot prepare weights: {} has none", operationName(problem.operation));
  }
  return checkPointer("w", operands.linear.w, kAligned);
}

}  // namespace tilewright
