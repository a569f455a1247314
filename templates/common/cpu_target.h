// The levels of x86-64 as the portable templates see them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "templates/template.h"

namespace tilewright {

struct CpuTarget {
  int lanes;      ///< f32 elements of a vector register
  int registers;  ///< vector registers

  double flopsPerInstruction() const { return 2.0 * lanes; }
};

/// Nothing for a target that is no level of x86-64.
inline std::optional<CpuTarget> cpuTargetOf(std::string_view target) {
  if (target == "x86-64") return CpuTarget{4, 16};
  if (target == "x86-64-v3") return CpuTarget{8, 16};
  if (target == "x86-64-v4") return CpuTarget{16, 32};
  return std::nullopt;
}

/// The rule that every portable template shares: tile programs are lowered to x86-64 alone.
inline std::optional<Refusal> refusesTarget(const DeviceInfo& device) {
  if (device.kind == DeviceKind::kCpu && cpuTargetOf(device.target)) return std::nullopt;
  return Refusal{"target", fmt::format("the target is {}, must be x86-64, x86-64-v3 or x86-64-v4", device.target)};
}

/// Bytes of tile buffers that a program may keep on the stack of the thread that runs it.
inline constexpr std::int64_t kMostStackBytes = 1 << 20;
/// Programs along one axis of a grid.
inline constexpr std::int64_t kMostPrograms = 0xffffffff;

inline std::int64_t ceilDivide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace tilewright
