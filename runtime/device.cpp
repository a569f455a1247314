#include "runtime/device.h"

#include <charconv>

#include "runtime/driver/cuda_device.h"
#include "runtime/host/cpu_device.h"
#include "runtime/host/cpu_info.h"

namespace tilewright {

Result<std::unique_ptr<Device>> openDevice(std::string_view name, const HostLoader* hostLoader) {
  if (name == "cpu") return makeCpuDevice(hostLoader);
  constexpr std::string_view kCuda = "cuda:";
  if (name.starts_with(kCuda)) {
    const std::string_view digits = name.substr(kCuda.size());
    int ordinal = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc{} && end == digits.data() + digits.size() && ordinal >= 0) return openCudaDevice(ordinal);
  }
  return fail(ErrorCode::kInvalidArgument, "cannot open device '{}': a device is cpu or cuda:<number>, such as cuda:0",
              name);
}

std::vector<std::pair<std::string, DeviceInfo>> listDevices(std::vector<std::string>& problems) {
  std::vector<std::pair<std::string, DeviceInfo>> devices;
  const Result<int> count = cudaDeviceCount();
  if (!count) problems.push_back(count.error().message);
  for (int ordinal = 0; ordinal < count.value_or(0); ++ordinal) {
    Result<DeviceInfo> info = cudaDeviceInfo(ordinal);
    if (info) {
      devices.emplace_back(fmt::format("cuda:{}", ordinal), std::move(*info));
    } else {
      problems.push_back(fmt::format("cuda:{}: {}", ordinal, info.error().message));
    }
  }
  devices.emplace_back("cpu", describeCpu());
  return devices;
}

}  // namespace tilewright
