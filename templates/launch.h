// What a template hands to the runtime for one call: kernels in order, each with geometry and arguments.
//
// Everything lives inside the object (no allocation), for it is filled on every launch. A tensor map is described here
// and encoded by the driver layer, the only one that knows the driver's 128 opaque bytes.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/dtype.h"
#include "base/inline_vector.h"

namespace tilewright {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// A tensor map (CUtensorMap) in the terms of cuTensorMapEncodeTiled; dimension 0 is the innermost.
struct TensorMap {
  enum class Element : std::uint8_t { kU8, kBf16, kF32, kS32 };
  enum class Swizzle : std::uint8_t { kNone, k32, k64, k128 };
  enum class L2Promotion : std::uint8_t { kNone, k64, k128, k256 };

  const void* base = nullptr;  ///< 16-byte aligned
  Element element = Element::kBf16;
  int rank = 2;                                ///< 1 to 5
  std::array<std::uint64_t, 5> size{};         ///< elements
  std::array<std::uint64_t, 4> strideBytes{};  ///< of dimensions 1 to rank - 1; multiples of 16
  std::array<std::uint32_t, 5> box{};          ///< elements, each at most 256
  Swizzle swizzle = Swizzle::kNone;
  L2Promotion promotion = L2Promotion::k256;
};

/// The arguments of one kernel, in the order of its parameters.
class KernelArguments {
 public:
  static constexpr int kMaximumCount = 40;
  static constexpr int kMaximumBytes = 1536;
  static constexpr int kMaximumTensorMaps = 6;
  static constexpr int kTensorMapBytes = 128;

  /// Appends a value as the kernel's parameter type has it. The type must match the kernel's in size.
  template <typename T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(append(sizeof(T), alignof(T)), &value, sizeof(T));
  }
  void pointer(const void* pointer) { value(pointer); }

  /// Appends a `const __grid_constant__` tensor map parameter.
  void tensorMap(const TensorMap& map) {
    mapSlot_[maps_.size()] = static_cast<std::uint8_t>(count_);
    maps_.add(map);
    append(kTensorMapBytes, 64);
  }

  int count() const { return count_; }
  std::byte* slot(int index) { return storage_.data() + offset_[index]; }
  const std::byte* slot(int index) const { return storage_.data() + offset_[index]; }
  int slotBytes(int index) const { return bytes_[index]; }
  std::span<const TensorMap> maps() const { return maps_.span(); }
  /// The argument index of the i-th tensor map.
  int mapSlot(int i) const { return mapSlot_[i]; }

 private:
  std::byte* append(std::size_t bytes, std::size_t alignment) {
    const std::size_t offset = (used_ + alignment - 1) / alignment * alignment;
    assert(count_ < kMaximumCount && offset + bytes <= kMaximumBytes);
    offset_[count_] = static_cast<std::uint16_t>(offset);
    bytes_[count_++] = static_cast<std::uint16_t>(bytes);
    used_ = offset + bytes;
    return storage_.data() + offset;
  }

  alignas(64) std::array<std::byte, kMaximumBytes> storage_;
  std::array<std::uint16_t, kMaximumCount> offset_;
  std::array<std::uint16_t, kMaximumCount> bytes_;
  InlineVector<TensorMap, kMaximumTensorMaps> maps_;
  std::array<std::uint8_t, kMaximumTensorMaps> mapSlot_;
  std::size_t used_ = 0;
  int count_ = 0;
};

struct Launch {
  enum class Kind : std::uint8_t {
    kKernel,
    kFill,  ///< sets `fillBytes` bytes at `fillTarget` to `fillValue`
  };

  Kind kind = Kind::kKernel;
  int kernel = 0;  ///< index into the plan's kernels: the entries of its build requests, in order
  Dim3 grid, block, cluster;
  std::uint32_t sharedBytes = 0;  ///< dynamic shared memory
  bool programmaticDependent =
      false;                 ///< may start before the launch before it ends (the kernel waits by griddepcontrol)
  bool cooperative = false;  ///< all blocks must be resident at once
  KernelArguments arguments;

  void* fillTarget = nullptr;
  std::uint8_t fillValue = 0;
  std::size_t fillBytes = 0;
};

class LaunchList {
 public:
  static constexpr int kMaximumLaunches = 8;

  Launch& add() { return launches_.add(); }
  Launch& addKernel(int kernel, Dim3 grid, Dim3 block, std::uint32_t sharedBytes = 0) {
    Launch& launch = add();
    launch.kernel = kernel, launch.grid = grid, launch.block = block, launch.sharedBytes = sharedBytes;
    return launch;
  }
  void addFill(void* target, std::uint8_t value, std::size_t bytes) {
    Launch& launch = add();
    launch.kind = Launch::Kind::kFill;
    launch.fillTarget = target, launch.fillValue = value, launch.fillBytes = bytes;
  }

  std::span<Launch> launches() { return launches_.span(); }
  std::span<const Launch> launches() const { return launches_.span(); }

 private:
  InlineVector<Launch, kMaximumLaunches> launches_;
};

/// Operands of `linear` and `q4k_linear`, addresses on the plan's device. Strides in elements.
struct LinearOperands {
  const void* x = nullptr;  ///< BF16 [m, k]
  std::int64_t xStride = 0;
  const void* w = nullptr;     ///< Q4_K super-blocks [n, k / 256], or BF16 [n, k], without gaps
  const void* bias = nullptr;  ///< BF16 [n]; exactly when the problem has a bias
  void* out = nullptr;         ///< BF16 [m, n]
  std::int64_t outStride = 0;
};

/// Strides in elements of a [batch, heads, length, head_dim] tensor.
struct Strides {
  std::int64_t batch = 0, head = 0, row = 0, column = 1;
};

/// Operands of `attention`, addresses on the plan's device.
struct AttentionOperands {
  const void* q = nullptr;              ///< [b, hq, lq, d]
  const void* k = nullptr;              ///< [b, hkv, capacity, d]
  const void* v = nullptr;              ///< [b, hkv, capacity, d]
  void* out = nullptr;                  ///< [b, hq, lq, d]
  float* lse = nullptr;                 ///< [b, hq, lq] without gaps; exactly when the problem asks for it
  const std::int32_t* kvLen = nullptr;  ///< [b], clamped to [0, capacity] on the device; null: capacity
  std::int64_t capacity = 0;
  float scale = 0;  ///< factor of Q K^T, usually 1 / sqrt(d)
  Strides qStride, kStride, vStride, outStride;
};

/// The operands of a problem: the member that its operation names.
struct Operands {
  LinearOperands linear;
  AttentionOperands attention;
};

}  // namespace tilewright
