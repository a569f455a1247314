#include "runtime/driver/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/hash.h"
#include "runtime/driver/cuda_context.h"
#include "runtime/driver/cuda_info.h"
#include "runtime/driver/cuda_timer.h"
#include "runtime/driver/tensor_map.h"

namespace tilewright {
namespace {

CUdeviceptr deviceAddress(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// A CUmodule.
class CudaBinary final : public LoadedBinary {
 public:
  CudaBinary(std::shared_ptr<const CudaContext> context, CUmodule module)
      : context_(std::move(context)), module_(module) {}
  ~CudaBinary() override {
    const ContextScope scope(*context_);
    context_->api().moduleUnload(module_);
  }
  CUmodule module() const { return module_; }

 private:
  std::shared_ptr<const CudaContext> context_;
  CUmodule module_;
};

/// Whether code for `target` runs on a device of `device`'s capability: the same target, or without a suffix the same
/// major and no greater minor capability.
bool runsOn(std::string_view target, const DeviceInfo& device) {
  if (target == device.target) return true;
  const Result<int> capability = computeCapabilityOf(target);
  return capability && target.find_first_of("af", 3) == std::string_view::npos &&
         *capability / 10 == device.computeMajor && *capability % 10 <= device.computeMinor;
}

std::string describe(const DriverApi& api, const Launch& launch, CUfunction function) {
  return fmt::format("{} (grid {}x{}x{}, block {}x{}x{}, cluster {}x{}x{}, {} bytes of shared memory{}{})",
                     api.functionName(function), launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x,
                     launch.block.y, launch.block.z, launch.cluster.x, launch.cluster.y, launch.cluster.z,
                     launch.sharedBytes, launch.cooperative ? ", cooperative" : "",
                     launch.programmaticDependent ? ", programmatic dependent" : "");
}

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const DriverApi> api, CUdevice device, DeviceInfo info)
      : api_(std::move(api)), device_(device), info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }
  Result<std::unique_ptr<LoadedBinary>> load(const Binary& binary) override;
  Result<KernelHandle> find(LoadedBinary& binary, std::string_view entry) override;
  Result<void> launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle stream) override;
  Result<void> checkAddress(const void* address) const override;
  Result<DeviceBuffer> allocate(std::size_t bytes) override;
  Result<void> copyToDevice(void* device, const void* host, std::size_t bytes) override;
  Result<void> copyToHost(void* host, const void* device, std::size_t bytes) override;
  Result<void> fill(void* device, std::uint8_t value, std::size_t bytes) override;
  Result<void> synchronize() override;
  Result<std::vector<double>> measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                      const MeasureOptions& options) override;

 private:
  Result<std::shared_ptr<const CudaContext>> context() const;
  Result<void> launchKernel(Launch& launch, CUfunction function, CUstream stream) const;

  std::shared_ptr<const DriverApi> api_;
  CUdevice device_;
  DeviceInfo info_;

  // Set once, at the first use; read without the lock.
  mutable std::atomic<const CudaContext*> ready_ = nullptr;
  mutable std::mutex contextMutex_;
  mutable std::shared_ptr<const CudaContext> context_;

  // One measurement at a time, also because two would disturb each other.
  std::mutex measureMutex_;
  DeviceBuffer flush_;
};

Result<std::shared_ptr<const CudaContext>> CudaDevice::context() const {
  if (ready_.load(std::memory_order_acquire) == nullptr) {
    const std::scoped_lock lock(contextMutex_);
    if (context_ == nullptr) {
      context_ = TW_TRY(CudaContext::create(api_, device_));
      ready_.store(context_.get(), std::memory_order_release);
    }
  }
  return context_;
}

Result<std::unique_ptr<LoadedBinary>> CudaDevice::load(const Binary& binary) {
  if (sha256Hex(binary.bytes) != binary.hash) {
    return fail(ErrorCode::kCorrupt, "cannot load binary {}: its bytes do not match its hash", binary.hash);
  }
  if (!runsOn(binary.target, info_)) {
    return fail(ErrorCode::kUnsupported, "cannot load binary {}: it was made for {}, the device is {}", binary.hash,
                binary.target, info_.target);
  }
  std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());

  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  CUmodule module = nullptr;
  const CUresult result = api_->moduleLoadDataEx(&module, binary.bytes.data(), static_cast<unsigned>(options.size()),
                                                 options.data(), values.data());
  if (result != CUDA_SUCCESS) {
    Error error = api_->error(result, fmt::format("cannot load binary {} for {}", binary.hash, binary.target));
    error.log = log.data();
    return std::unexpected(std::move(error));
  }
  return std::make_unique<CudaBinary>(std::move(context), module);
}

Result<KernelHandle> CudaDevice::find(LoadedBinary& binary, std::string_view entry) {
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  const std::string name(entry);
  CUfunction function = nullptr;
  TW_TRY(api_->check(api_->moduleGetFunction(&function, static_cast<CudaBinary&>(binary).module(), name.c_str()),
                     "cannot find kernel {} in the binary", name));

  // NOTE: modules load lazily, and what loads at the first launch would break a graph capture.
  TW_TRY(api_->check(api_->loadFunction(function), "cannot load kernel {}", name));

  // Allow all the dynamic shared memory that the static part leaves, and clusters beyond the portable size of 8.
  int staticBytes = 0;
  TW_TRY(api_->check(api_->funcGetAttribute(&staticBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
                     "cannot read the shared memory of {}", name));
  const int dynamicBytes = static_cast<int>(info_.sharedBytesPerBlock) - staticBytes;
  TW_TRY(api_->check(api_->funcSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamicBytes),
                     "cannot allow {} bytes of dynamic shared memory to {}", dynamicBytes, name));
  // NOTE: an SM divides its memory between L1 and shared memory anew only when it is idle. Kernels that agree on all
  // shared memory follow each other, and stand side by side, without that.
  TW_TRY(api_->check(api_->funcSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                            CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                     "cannot prefer shared memory for {}", name));
  if (info_.computeMajor >= 9) {
    TW_TRY(api_->check(api_->funcSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                       "cannot allow large clusters to {}", name));
  }
  return KernelHandle{function};
}

Result<void> CudaDevice::launchKernel(Launch& launch, CUfunction function, CUstream stream) const {
  TW_TRY(encodeTensorMaps(*api_, launch.arguments));
  std::array<void*, KernelArguments::kMaximumCount> parameters;
  for (int i = 0; i < launch.arguments.count(); ++i) parameters[i] = launch.arguments.slot(i);

  std::array<CUlaunchAttribute, 3> attributes;
  unsigned count = 0;
  if (launch.cluster.x * launch.cluster.y * launch.cluster.z > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.clusterDim = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
  }
  if (launch.programmaticDependent) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.cooperative) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.cooperative = 1;
  }
  const CUlaunchConfig config{.gridDimX = launch.grid.x,
                              .gridDimY = launch.grid.y,
                              .gridDimZ = launch.grid.z,
                              .blockDimX = launch.block.x,
                              .blockDimY = launch.block.y,
                              .blockDimZ = launch.block.z,
                              .sharedMemBytes = launch.sharedBytes,
                              .hStream = stream,
                              .attrs = attributes.data(),
                              .numAttrs = count};
  const CUresult result = api_->launchKernelEx(&config, function, parameters.data(), nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return std::unexpected(api_->error(result, "cannot launch " + describe(*api_, launch, function)));
}

Result<void> CudaDevice::launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle stream) {
  const CudaContext* context = ready_.load(std::memory_order_acquire);
  if (context == nullptr) context = TW_TRY(this->context()).get();
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  const auto cudaStream = static_cast<CUstream>(stream);
  for (Launch& launch : launches.launches()) {
    if (launch.kind == Launch::Kind::kFill) {
      if (launch.fillBytes == 0) continue;
      TW_TRY(api_->check(
          api_->memsetD8Async(deviceAddress(launch.fillTarget), launch.fillValue, launch.fillBytes, cudaStream),
          "cannot fill {} bytes at {}", launch.fillBytes, launch.fillTarget));
      continue;
    }
    // An empty grid has nothing to do; the driver would refuse it.
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) continue;
    if (launch.kernel < 0 || static_cast<std::size_t>(launch.kernel) >= kernels.size()) {
      return fail(ErrorCode::kInternal, "cannot launch kernel {}: the plan has {}", launch.kernel, kernels.size());
    }
    TW_TRY(launchKernel(launch, static_cast<CUfunction>(kernels[launch.kernel].function), cudaStream));
  }
  return {};
}

Result<void> CudaDevice::checkAddress(const void* address) const {
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  unsigned memoryType = 0, managed = 0;
  int ordinal = -1;
  std::array<CUpointer_attribute, 3> attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values = {&memoryType, &managed, &ordinal};
  // An address that the driver does not know leaves the values as they are.
  TW_TRY(api_->check(api_->pointerGetAttributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                                values.data(), deviceAddress(address)),
                     "cannot look up address {}", address));
  if (memoryType == 0) {
    int pageable = 0;
    api_->deviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device_);
    if (pageable != 0) return {};
    return fail(ErrorCode::kInvalidArgument, "address {} is no memory of CUDA's, so kernels on cuda:{} cannot reach it",
                address, device_);
  }
  if (memoryType == CU_MEMORYTYPE_DEVICE && managed == 0 && ordinal != device_) {
    return fail(ErrorCode::kInvalidArgument, "address {} lies on cuda:{}, the kernels run on cuda:{}", address, ordinal,
                device_);
  }
  return {};
}

Result<DeviceBuffer> CudaDevice::allocate(std::size_t bytes) {
  std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  CUdeviceptr address = 0;
  // An empty buffer has an address too.
  TW_TRY(api_->check(api_->memAlloc(&address, std::max<std::size_t>(bytes, 1)), "cannot allocate {} bytes on cuda:{}",
                     bytes, device_));
  return DeviceBuffer(reinterpret_cast<void*>(address), bytes, [context = std::move(context)](void* data) {
    const ContextScope scope(*context);
    context->api().memFree(deviceAddress(data));
  });
}

Result<void> CudaDevice::copyToDevice(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  TW_TRY(api_->check(api_->memcpyHtoD(deviceAddress(device), host, bytes), "cannot copy {} bytes to cuda:{}", bytes,
                     device_));
  // NOTE: a copy from pageable memory returns once it is staged. Streams that do not wait for the default stream must
  // see the bytes too.
  return api_->check(api_->streamSynchronize(nullptr), "cannot copy {} bytes to cuda:{}", bytes, device_);
}

Result<void> CudaDevice::copyToHost(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  return api_->check(api_->memcpyDtoH(host, deviceAddress(device), bytes), "cannot copy {} bytes from cuda:{}", bytes,
                     device_);
}

Result<void> CudaDevice::fill(void* device, std::uint8_t value, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  TW_TRY(api_->check(api_->memsetD8Async(deviceAddress(device), value, bytes, nullptr),
                     "cannot fill {} bytes on cuda:{}", bytes, device_));
  // As for copies: other streams must see the bytes.
  return api_->check(api_->streamSynchronize(nullptr), "cannot fill {} bytes on cuda:{}", bytes, device_);
}

Result<void> CudaDevice::synchronize() {
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  return api_->check(api_->ctxSynchronize(), "a kernel on cuda:{} failed", device_);
}

Result<std::vector<double>> CudaDevice::measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                                const MeasureOptions& options) {
  const std::shared_ptr<const CudaContext> context = TW_TRY(this->context());
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  const std::scoped_lock lock(measureMutex_);
  if (options.flushCache && flush_.data() == nullptr) {
    constexpr std::int64_t kLeastBytes = std::int64_t{256} << 20;
    flush_ = TW_TRY(allocate(static_cast<std::size_t>(std::max(kLeastBytes, 2 * info_.l2Bytes))));
  }
  return timeGraphReplays(*api_, enqueue, options, deviceAddress(flush_.data()),
                          options.flushCache ? flush_.bytes() : 0);
}

Result<std::shared_ptr<const DriverApi>> driverWith(int ordinal) {
  std::shared_ptr<const DriverApi> api = TW_TRY(DriverApi::open());
  if (ordinal < 0 || ordinal >= api->deviceCount()) {
    return fail(ErrorCode::kNotFound, "cuda:{}: the driver has {} device{}", ordinal, api->deviceCount(),
                api->deviceCount() == 1 ? "" : "s");
  }
  return api;
}

}  // namespace

Result<int> cudaDeviceCount() {
  return TW_TRY(DriverApi::open())->deviceCount();
}

Result<DeviceInfo> cudaDeviceInfo(int ordinal) {
  const std::shared_ptr<const DriverApi> api = TW_TRY(driverWith(ordinal));
  CUdevice device = 0;
  TW_TRY(api->check(api->deviceGet(&device, ordinal), "cannot open cuda:{}", ordinal));
  return describeCudaDevice(*api, device);
}

Result<std::unique_ptr<Device>> openCudaDevice(int ordinal) {
  std::shared_ptr<const DriverApi> api = TW_TRY(driverWith(ordinal));
  CUdevice device = 0;
  TW_TRY(api->check(api->deviceGet(&device, ordinal), "cannot open cuda:{}", ordinal));
  DeviceInfo info = TW_TRY(describeCudaDevice(*api, device));
  return std::make_unique<CudaDevice>(std::move(api), device, std::move(info));
}

}  // namespace tilewright
