#include "runtime/driver/cuda_context.h"

namespace tilewright {

Result<std::shared_ptr<const CudaContext>> CudaContext::create(std::shared_ptr<const DriverApi> api, CUdevice device) {
  CUcontext current = nullptr;
  if (api->ctxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    CUdevice owner = -1;
    if (api->ctxGetDevice(&owner) == CUDA_SUCCESS && owner == device) {
      return std::shared_ptr<const CudaContext>(new CudaContext(std::move(api), device, current, false));
    }
  }
  CUcontext primary = nullptr;
  TW_TRY(api->check(api->devicePrimaryCtxRetain(&primary, device), "cannot create a CUDA context on cuda:{}", device));
  return std::shared_ptr<const CudaContext>(new CudaContext(std::move(api), device, primary, true));
}

CudaContext::~CudaContext() {
  if (retained_) api_->devicePrimaryCtxRelease(device_);
}

}  // namespace tilewright
