#include "runtime/driver/cuda_info.h"

#include <array>

#include "runtime/driver/nvml.h"

namespace tilewright {
namespace {

/// Dense BF16 (FP16 before sm_80) operations per clock and SM, FP32 accumulation: NVIDIA's architecture white papers.
/// Consumer cards of sm_86, sm_89 and sm_120 have half of it.
double matrixFlopPerClock(int capability) {
  switch (capability) {
    case 75:
      return 1024;
    case 80:
      return 2048;
    case 86:
    case 87:
    case 89:
      return 1024;
    case 90:
      return 4096;
    case 100:
    case 103:
    case 110:
      return 8192;
    case 120:
    case 121:
      return 1024;
    default:
      return capability < 75 ? 256 : 4096;
  }
}

}  // namespace

Result<DeviceInfo> describeCudaDevice(const DriverApi& api, CUdevice device) {
  DeviceInfo info;
  info.kind = DeviceKind::kCuda;

  const auto attribute = [&](CUdevice_attribute which, auto& value) -> Result<void> {
    int read = 0;
    TW_TRY(api.check(api.deviceGetAttribute(&read, which, device), "cannot read attribute {} of cuda:{}",
                     static_cast<int>(which), device));
    value = read;
    return {};
  };
  int clockKilohertz = 0, memoryKilohertz = 0, busBits = 0;
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, info.computeMajor));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, info.computeMinor));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, info.unitCount));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, info.sharedBytesPerBlock));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, info.sharedBytesPerUnit));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, info.registersPerUnit));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, info.l2Bytes));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, clockKilohertz));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, memoryKilohertz));
  TW_TRY(attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, busBits));

  // A MIG slice is called "NVIDIA H200 MIG 1g.18gb".
  std::array<char, 256> name{};
  TW_TRY(
      api.check(api.deviceGetName(name.data(), static_cast<int>(name.size()), device), "cannot name cuda:{}", device));
  info.name = name.data();
  constexpr std::string_view kMig = " MIG ";
  if (const std::size_t at = info.name.find(kMig); at != std::string::npos) {
    info.migProfile = info.name.substr(at + kMig.size());
    info.name.resize(at);
  }

  // From Hopper on, the architecture's own instructions (wgmma, setmaxnreg, tcgen05) need the "a" target.
  const int capability = info.computeMajor * 10 + info.computeMinor;
  info.target = fmt::format("sm_{}{}", capability, capability >= 90 ? "a" : "");

  std::size_t memory = 0;
  TW_TRY(api.check(api.deviceTotalMem(&memory, device), "cannot read the memory size of cuda:{}", device));
  info.memoryBytes = static_cast<std::int64_t>(memory);
  // Two transfers per clock and pin.
  info.memoryBytesPerSecond = 2.0 * memoryKilohertz * 1e3 * busBits / 8;
  info.bf16FlopPerSecond = matrixFlopPerClock(capability) * info.unitCount * clockKilohertz * 1e3;

  TW_TRY(api.check(api.driverGetVersion(&info.driverVersion), "cannot read the driver's version"));
  std::array<char, 32> bus{};
  if (api.deviceGetPciBusId(bus.data(), static_cast<int>(bus.size()), device) == CUDA_SUCCESS) {
    info.powerLimitWatts = powerLimitWatts(bus.data());
  }
  return info;
}

}  // namespace tilewright
