#include "base/device_info.h"

#include <charconv>

namespace tilewright {

std::string deviceKey(const DeviceInfo& device) {
  return fmt::format("{}|{}|{}|{}|{}", device.kind == DeviceKind::kCpu ? "cpu" : "cuda", device.name, device.target,
                     device.unitCount, device.migProfile);
}

Result<int> computeCapabilityOf(std::string_view target) {
  int capability = 0;
  const std::string_view digits = target.starts_with("sm_") ? target.substr(3) : std::string_view{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  const std::string_view suffix(end, digits.data() + digits.size() - end);
  if (digits.empty() || error != std::errc{} || capability < 10 ||
      !(suffix.empty() || suffix == "a" || suffix == "f")) {
    return fail(ErrorCode::kInvalidArgument, "cannot read target '{}': a GPU target is sm_<capability>, such as sm_90a",
                target);
  }
  return capability;
}

Result<DeviceInfo> nominalDevice(std::string_view target) {
  DeviceInfo device;
  device.target = target;
  if (target == "x86-64" || target == "x86-64-v3" || target == "x86-64-v4") {
    device.kind = DeviceKind::kCpu;
    device.name = fmt::format("nominal {}", target);
    device.unitCount = 1;
    device.l2Bytes = 1 << 20;
    device.memoryBytes = std::int64_t{8} << 30;
    device.memoryBytesPerSecond = 20e9;
    device.bf16FlopPerSecond = target == "x86-64-v4" ? 200e9 : target == "x86-64-v3" ? 100e9 : 40e9;
    return device;
  }
  if (!target.starts_with("sm_")) {
    return fail(ErrorCode::kInvalidArgument, "unknown target '{}': use sm_<capability>, x86-64, x86-64-v3 or x86-64-v4",
                target);
  }
  const int capability = TW_TRY(computeCapabilityOf(target));
  device.kind = DeviceKind::kCuda;
  device.computeMajor = capability / 10;
  device.computeMinor = capability % 10;
  device.name = fmt::format("nominal {}", target);

  // Shared memory of a block and of an SM: CUDA C++ Programming Guide, table of technical specifications.
  device.registersPerUnit = 65536;
  switch (capability) {
    case 75:
      device.sharedBytesPerBlock = 64 << 10, device.sharedBytesPerUnit = 64 << 10;
      break;
    case 80:
    case 87:
      device.sharedBytesPerBlock = 163 << 10, device.sharedBytesPerUnit = 164 << 10;
      break;
    case 86:
    case 89:
    case 120:
    case 121:
      device.sharedBytesPerBlock = 99 << 10, device.sharedBytesPerUnit = 100 << 10;
      break;
    default:
      device.sharedBytesPerBlock = 227 << 10, device.sharedBytesPerUnit = 228 << 10;
      break;
  }
  if (capability == 90) {
    // NOTE: what the driver reports of an H200 (3201 MHz on 6016 bits; 4096 operations per clock and unit at 1980 MHz),
    // not what copies and products reach (4.3e12, 790e12): a plan made for it is the plan that the card's default asks
    // for.
    device.name = "NVIDIA H200";
    device.unitCount = 132;
    device.l2Bytes = std::int64_t{60} << 20;
    device.memoryBytes = std::int64_t{139} << 30;
    device.memoryBytesPerSecond = 4.814304e12;
    device.bf16FlopPerSecond = 1070.53056e12;
  } else {
    device.unitCount = 108;
    device.l2Bytes = std::int64_t{40} << 20;
    device.memoryBytes = std::int64_t{40} << 30;
    device.memoryBytesPerSecond = 1.5e12;
    device.bf16FlopPerSecond = 300e12;
  }
  return device;
}

}  // namespace tilewright
