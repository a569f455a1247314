#include "runtime/driver/nvml.h"

#include "base/shared_library.h"

namespace tilewright {
namespace {

using NvmlDevice = struct NvmlDeviceHandle*;  // nvmlDevice_t, opaque
constexpr int kNvmlSuccess = 0;

struct Nvml {
  static Result<Nvml> open() {
    Nvml api{.library = TW_TRY(SharedLibrary::open("libnvidia-ml.so.1"))};
    TW_TRY(api.library.bind(api.init, "nvmlInit_v2"));
    TW_TRY(api.library.bind(api.shutdown, "nvmlShutdown"));
    TW_TRY(api.library.bind(api.deviceByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2"));
    TW_TRY(api.library.bind(api.enforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit"));
    return api;
  }

  SharedLibrary library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*deviceByPciBusId)(const char* pciBusId, NvmlDevice* device) = nullptr;
  int (*enforcedPowerLimit)(NvmlDevice device, unsigned* milliwatts) = nullptr;
};

}  // namespace

int powerLimitWatts(const std::string& pciBusId) {
  const Result<Nvml> nvml = Nvml::open();
  if (!nvml || nvml->init() != kNvmlSuccess) return 0;
  NvmlDevice device = nullptr;
  unsigned milliwatts = 0;
  const bool known = nvml->deviceByPciBusId(pciBusId.c_str(), &device) == kNvmlSuccess &&
                     nvml->enforcedPowerLimit(device, &milliwatts) == kNvmlSuccess;
  nvml->shutdown();
  return known ? static_cast<int>(milliwatts / 1000) : 0;
}

}  // namespace tilewright
