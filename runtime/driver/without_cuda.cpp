// The CUDA device of a build that found no cuda.h: it answers why it is missing.
#include "runtime/driver/cuda_device.h"
#include "runtime/driver/cuda_stream.h"

namespace tilewright {
namespace {

std::unexpected<Error> missing() {
  return fail(ErrorCode::kUnsupported, "no CUDA device: this library was built without CUDA headers");
}

}  // namespace

Result<int> cudaDeviceCount() {
  return missing();
}
Result<DeviceInfo> cudaDeviceInfo(int) {
  return missing();
}
Result<std::unique_ptr<Device>> openCudaDevice(int) {
  return missing();
}
Result<std::unique_ptr<CudaStream>> createCudaStream(int) {
  return missing();
}

}  // namespace tilewright
