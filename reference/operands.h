// Random operands of a problem in host memory, for tests and for the tuner's verification.
//
// Every tensor lies in a buffer of its own between guard bytes. Buffers start as 0xff bytes, which read as NaN in BF16
// and FP32, and only real elements are written over: whatever a kernel reads from a gap between rows, beyond kv_len or
// outside the tensor turns its result into NaN, and whatever it does not write of the output is still 0xff afterwards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "templates/launch.h"

namespace tilewright::reference {

enum class Activations : std::uint8_t {
  kGaussian,
  kOutliers,      ///< Gaussian, 0.5 % of the channels (at least one) at 30 times
  kZeroRows,      ///< Gaussian, every second row zero
  kConstantRows,  ///< one Gaussian value per row
  kExtremes,      ///< integers from -126 to 127, 127 in every row: what an 8-bit conversion must not wrap
  kLarge,         ///< uniform in [-6e4, 6e4]
};

enum class Weights : std::uint8_t {
  kGaussian,       ///< deviation 0.02; Q4_K: super-blocks quantized from such weights
  kAnyBits,        ///< Q4_K: any scales, mins and codes under positive steps; BF16: as kGaussian
  kOnlyMins,       ///< Q4_K: every second super-block has d = 0 and keeps its mins; BF16: as kGaussian
  kNegativeSteps,  ///< Q4_K: d and dmin of either sign; BF16: as kGaussian
};

enum class Scores : std::uint8_t {
  kGaussian,
  kDeeplyNegative,  ///< every score is -524288 exactly; wants head_dim >= 8, takes scale 1
};

/// Layout and values. Strides in elements.
struct OperandOptions {
  std::uint64_t seed = 1;
  /// Elements (for W in Q4_K: units of 2 bytes) from a 256-byte boundary to each tensor's first element.
  std::int64_t baseOffset = 0;

  // Linear operations.
  Activations activations = Activations::kGaussian;
  Weights weights = Weights::kGaussian;
  double weightScale = 1;       ///< factor of all weights
  std::int64_t xPadding = 0;    ///< elements between the rows of x
  std::int64_t outPadding = 0;  ///< elements between the rows of out

  // Attention.
  Scores scores = Scores::kGaussian;
  float scale = 0;                       ///< 0: 1 / sqrt(head_dim)
  std::optional<std::int64_t> capacity;  ///< rows of K and V; default: the problem's kv_len
  std::vector<std::int32_t> kvLens;      ///< one per batch entry, any values; empty: a null pointer
  std::optional<Strides> qStrides, kStrides, vStrides, outStrides;  ///< default: [b, h, l, d] without gaps
};

/// Values repeat or are correlated, so rounding errors do not average out and only worst-case bounds hold.
bool isStructured(const OperandOptions& options);

/// Strides of [b, h, l, d] and of [b, l, h, d] with `padding` elements after each innermost row of head_dim.
Strides headMajorStrides(std::int64_t heads, std::int64_t length, std::int64_t headDim, std::int64_t padding = 0);
Strides rowMajorStrides(std::int64_t heads, std::int64_t length, std::int64_t headDim, std::int64_t padding = 0);

/// The tensors of all operations.
enum class Role : std::uint8_t { kX, kW, kBias, kQ, kK, kV, kKvLen, kOut, kLse };
inline constexpr std::array kRoles{Role::kX, Role::kW,     Role::kBias, Role::kQ,  Role::kK,
                                   Role::kV, Role::kKvLen, Role::kOut,  Role::kLse};

/// Where a tensor lies in its buffer; `bytes` is 0 for a tensor that the problem does not have.
struct Extent {
  std::int64_t bytes = 0;   ///< of the buffer, guards included
  std::int64_t origin = 0;  ///< byte offset of the tensor's element 0
};

/// A buffer aligned to 256 bytes.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// Filled with 0xff. kOutOfMemory if the machine refuses.
  static Result<HostBuffer> create(std::int64_t bytes);

  std::byte* data() const { return data_.get(); }
  std::span<std::byte> span() const { return {data_.get(), static_cast<std::size_t>(bytes_)}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

/// The inputs with their values, and the outputs' places. Movable; addresses of buffers do not change.
class HostOperands {
 public:
  const Problem& problem() const { return problem_; }
  const OperandOptions& options() const { return options_; }
  const Extent& extent(Role role) const { return extents_[static_cast<std::size_t>(role)]; }
  /// Empty for the outputs and for absent tensors.
  const HostBuffer& buffer(Role role) const { return buffers_[static_cast<std::size_t>(role)]; }

  /// The operands when each buffer lies at `base[role]`, on whatever device.
  Operands at(const std::array<void*, kRoles.size()>& base) const;
  /// The inputs' addresses here; the outputs are null.
  Operands inputs() const;
  /// kv_len of a batch entry, clamped to [0, capacity].
  std::int64_t kvLength(std::int64_t batch) const;
  /// Bytes of all buffers, outputs included.
  std::int64_t totalBytes() const;

 private:
  friend Result<HostOperands> makeOperands(const Problem& problem, const OperandOptions& options);

  Problem problem_;
  OperandOptions options_;
  std::array<Extent, kRoles.size()> extents_;
  std::array<HostBuffer, kRoles.size()> buffers_;
  Operands layout_;  ///< strides and scalars
};

/// kInvalidArgument for an invalid problem or options that do not fit it, kOutOfMemory.
Result<HostOperands> makeOperands(const Problem& problem, const OperandOptions& options = {});

}  // namespace tilewright::reference
