// Results of an operation computed plainly on the host in FP32 with BF16 outputs: what a right kernel would give, for
// tests that plant errors into it.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/q4k.h"
#include "reference/check.h"
#include "reference/operands.h"

namespace tilewright::reference {

/// Output buffers of an operation on the host.
class PlainResult {
 public:
  explicit PlainResult(const HostOperands& operands) : operands_(operands) {
    for (const Role role : {Role::kOut, Role::kLse}) {
      const auto index = static_cast<std::size_t>(role);
      buffers_[index].assign(static_cast<std::size_t>(operands.extent(role).bytes), std::byte{0xff});
    }
    operands.problem().isLinear() ? computeLinear() : computeAttention();
  }

  ReadOutput reader() const {
    return [this](Role role, std::int64_t firstByte, std::span<std::byte> to) -> Result<void> {
      std::memcpy(to.data(), buffers_[static_cast<std::size_t>(role)].data() + firstByte, to.size());
      return {};
    };
  }
  /// An output element, or any 16 bits around the outputs, by its distance from element 0.
  Bf16& out(std::int64_t index) { return *reinterpret_cast<Bf16*>(at(Role::kOut, index * 2)); }
  float& lse(std::int64_t index) { return *reinterpret_cast<float*>(at(Role::kLse, index * 4)); }

 private:
  std::byte* at(Role role, std::int64_t bytes) {
    return buffers_[static_cast<std::size_t>(role)].data() + operands_.extent(role).origin + bytes;
  }

  static float element(const void* base, std::int64_t index) { return toFloat(static_cast<const Bf16*>(base)[index]); }

  void computeLinear() {
    const Problem& problem = operands_.problem();
    const LinearShape& shape = problem.linear;
    const LinearOperands inputs = operands_.inputs().linear;
    std::vector<float> w(static_cast<std::size_t>(shape.k));
    for (std::int64_t j = 0; j < shape.n; ++j) {
      for (std::int64_t i = 0; i < shape.k; ++i) {
        if (problem.operation == Operation::kLinear) {
          w[static_cast<std::size_t>(i)] = element(inputs.w, j * shape.k + i);
        } else if (i % 256 == 0) {
          Q4kBlock block;
          std::memcpy(&block, static_cast<const std::byte*>(inputs.w) + (j * shape.k + i) / 256 * 144, 144);
          dequantize(block, std::span(w).subspan(static_cast<std::size_t>(i)).first<256>());
        }
      }
      for (std::int64_t r = 0; r < shape.m; ++r) {
        float sum = 0;
        for (std::int64_t i = 0; i < shape.k; ++i) {
          // Q4_K weights are rounded to BF16, as the exact kernels may.
          sum += element(inputs.x, r * inputs.xStride + i) * toFloat(toBf16(w[static_cast<std::size_t>(i)]));
        }
        out(r * inputs.outStride + j) = toBf16(sum + (shape.bias ? element(inputs.bias, j) : 0));
      }
    }
  }

  void computeAttention() {
    const AttentionShape& shape = operands_.problem().attention;
    const AttentionOperands inputs = operands_.inputs().attention;
    const auto at = [](const Strides& s, std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t c) {
      return b * s.batch + h * s.head + l * s.row + c * s.column;
    };
    for (std::int64_t row = 0; row < shape.batch * shape.qHeads * shape.qLen; ++row) {
      const std::int64_t b = row / (shape.qHeads * shape.qLen), h = row / shape.qLen % shape.qHeads,
                         l = row % shape.qLen;
      const std::int64_t kvHead = h * shape.kvHeads / shape.qHeads, length = operands_.kvLength(b);
      std::vector<float> scores;
      for (std::int64_t n = 0; n < length && (!shape.causal || n <= length - shape.qLen + l); ++n) {
        float score = 0;
        for (std::int64_t c = 0; c < shape.headDim; ++c) {
          score += element(inputs.q, at(inputs.qStride, b, h, l, c)) *
                   element(inputs.k, at(inputs.kStride, b, kvHead, n, c));
        }
        scores.push_back(score * inputs.scale);
      }
      float largest = -INFINITY, sum = 0;
      for (const float score : scores) largest = std::max(largest, score);
      for (float& score : scores) sum += score = std::exp(score - largest);
      for (std::int64_t c = 0; c < shape.headDim; ++c) {
        float value = 0;
        for (std::size_t n = 0; n < scores.size(); ++n) {
          value += toFloat(toBf16(scores[n])) *
                   element(inputs.v, at(inputs.vStride, b, kvHead, static_cast<std::int64_t>(n), c));
        }
        out(at(inputs.outStride, b, h, l, c)) = toBf16(scores.empty() ? 0 : value / sum);
      }
      if (shape.logSumExp) lse(row) = scores.empty() ? -INFINITY : largest + std::log(sum);
    }
  }

  const HostOperands& operands_;
  std::array<std::vector<std::byte>, kRoles.size()> buffers_;
};

}  // namespace tilewright::reference
