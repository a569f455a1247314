// What a device is, as far as code generation, launch geometry and the tuning database must know.
//
// `key` fields decide which winners apply; the others are recorded with a measurement and reported when they differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tilewright {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;

  // Key.
  std::string name;      ///< "NVIDIA H200", or the CPU's model name
  std::string target;    ///< what code is made for: "sm_90a", "sm_80", "x86-64-v3"
  int computeMajor = 0;  ///< CUDA compute capability; 0 for the CPU
  int computeMinor = 0;
  int unitCount = 0;       ///< SMs, or hardware threads of the CPU
  std::string migProfile;  ///< empty unless the device is a MIG slice

  // Limits that constraints and geometry use.
  std::int64_t sharedBytesPerBlock = 0;  ///< opt-in maximum of dynamic plus static shared memory
  std::int64_t sharedBytesPerUnit = 0;   ///< shared memory of an SM
  std::int64_t registersPerUnit = 0;     ///< 32-bit registers of an SM
  std::int64_t l2Bytes = 0;              ///< last-level cache
  std::int64_t memoryBytes = 0;

  // Cost model: nominal rates, not measurements.
  double memoryBytesPerSecond = 0;
  double bf16FlopPerSecond = 0;  ///< dense matrix rate; FP8 and INT8 count twice this

  // Recorded only.
  int driverVersion = 0;  ///< as cuDriverGetVersion gives it, such as 13000
  int powerLimitWatts = 0;

  bool operator==(const DeviceInfo&) const = default;
};

/// The part of the key that names a device in the tuning database, such as "cuda|NVIDIA H200|sm_90a|132|".
std::string deviceKey(const DeviceInfo& device);

/// The best known device of a target in nominal figures, for planning and compiling where it is not present. `target`
/// is "sm_<cc>" with an optional suffix a or f, or "x86-64", "x86-64-v3", "x86-64-v4"; others are kInvalidArgument.
Result<DeviceInfo> nominalDevice(std::string_view target);

/// Compute capability of "sm_90a" as 90; kInvalidArgument for anything that is not an sm target.
Result<int> computeCapabilityOf(std::string_view target);

}  // namespace tilewright
