#include "runtime/driver/driver_api.h"

namespace tilewright {

Result<std::shared_ptr<const DriverApi>> DriverApi::open() {
  SharedLibrary library = TW_TRY(SharedLibrary::open("libcuda.so.1"));
  std::shared_ptr<DriverApi> api(new DriverApi(std::move(library)));
#define TILEWRIGHT_BIND(member, symbol) TW_TRY(api->library_.bind(api->member, #symbol));
  TILEWRIGHT_DRIVER_SYMBOLS(TILEWRIGHT_BIND)
#undef TILEWRIGHT_BIND

  const CUresult initialized = api->init(0);
  if (initialized == CUDA_ERROR_NO_DEVICE) return api;
  if (initialized != CUDA_SUCCESS) {
    Error error = api->error(initialized, "cannot initialize the CUDA driver");
    error.code = ErrorCode::kUnavailable;
    return std::unexpected(std::move(error));
  }
  TW_TRY(api->check(api->deviceGetCount(&api->deviceCount_), "cannot count the CUDA devices"));
  return api;
}

Error DriverApi::error(CUresult result, std::string attempt) const {
  const char *name = nullptr, *sentence = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &sentence);

  ErrorCode code = ErrorCode::kDevice;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) code = ErrorCode::kOutOfMemory;
  if (result == CUDA_ERROR_NOT_FOUND) code = ErrorCode::kNotFound;
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) code = ErrorCode::kUnsupported;
  return {code, fmt::format("{}: {} ({})", attempt, name == nullptr ? "unknown CUDA error" : name,
                            sentence == nullptr ? std::to_string(result) : sentence)};
}

std::string DriverApi::functionName(CUfunction function) const {
  // Since CUDA 12.3, so not in the table.
  using GetName = CUresult (*)(const char**, CUfunction);
  const auto getName = reinterpret_cast<GetName>(library_.find("cuFuncGetName"));
  const char* name = nullptr;
  if (getName == nullptr || getName(&name, function) != CUDA_SUCCESS || name == nullptr) return "kernel";
  return name;
}

CUresult DriverApi::loadFunction(CUfunction function) const {
  using Load = CUresult (*)(CUfunction);
  const auto load = reinterpret_cast<Load>(library_.find("cuFuncLoad"));
  return load == nullptr ? CUDA_SUCCESS : load(function);
}

}  // namespace tilewright
