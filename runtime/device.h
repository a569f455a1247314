// A device that kernels run on: the CPU, or a CUDA GPU. The dispatcher launches through it; the tuner, the conformance
// tests and the command line also allocate, copy and measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/build_request.h"
#include "base/device_info.h"
#include "base/result.h"
#include "templates/launch.h"

namespace tilewright {

/// A CUstream of the caller, or null: the CPU, or CUDA's default stream.
using StreamHandle = void*;

/// A binary that is ready to run on its device. Destruction unloads it; no launch of it may be in flight.
class LoadedBinary {
 public:
  virtual ~LoadedBinary() = default;
};

/// One entry of a loaded binary, as `Device::launch` wants it. Small, copyable, valid as long as its LoadedBinary.
struct KernelHandle {
  void* function = nullptr;  ///< CUfunction, or HostCode::Entry
};

/// Device memory with RAII; `data()` is an address on the device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(void* data, std::size_t bytes, std::function<void(void*)> free)
      : data_(data), bytes_(bytes), free_(std::move(free)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_), std::swap(free_, other.free_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) free_(data_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::function<void(void*)> free_;
};

/// How `Device::measure` times: `repeats` runs after `warmups`, each after a flush of the last-level cache.
struct MeasureOptions {
  int warmups = 3;
  int repeats = 15;
  bool flushCache = true;
  double restMilliseconds = 0;  ///< idle time before the warm-ups: a power-limited card starts each candidate alike
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  /// kCorrupt if the bytes do not match the binary's hash, kUnsupported if it was made for another target.
  virtual Result<std::unique_ptr<LoadedBinary>> load(const Binary& binary) = 0;
  /// kNotFound if the binary has no such entry. Sets the entry's maximum of dynamic shared memory.
  virtual Result<KernelHandle> find(LoadedBinary& binary, std::string_view entry) = 0;

  /// Enqueues the launches in order on the caller's stream, encoding tensor maps in place; allocates nothing and
  /// synchronizes nothing. The CPU runs them before it returns. Launch::kernel indexes `kernels`, the plan's handles.
  virtual Result<void> launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle stream) = 0;

  /// kInvalidArgument if kernels of this device cannot reach `address`: memory of another device, host memory that the
  /// driver does not know. Asked once for each plan and operand, so it may take a driver call.
  virtual Result<void> checkAddress(const void* address) const { return {}; }

  virtual Result<DeviceBuffer> allocate(std::size_t bytes) = 0;
  virtual Result<void> copyToDevice(void* device, const void* host, std::size_t bytes) = 0;
  virtual Result<void> copyToHost(void* host, const void* device, std::size_t bytes) = 0;
  virtual Result<void> fill(void* device, std::uint8_t value, std::size_t bytes) = 0;
  /// Waits for everything; kDevice if any kernel before it faulted.
  virtual Result<void> synchronize() = 0;

  /// Microseconds of each repeat of what `enqueue` puts on the stream: graph replays between device events on a GPU, a
  /// steady clock on the CPU.
  virtual Result<std::vector<double>> measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                              const MeasureOptions& options) = 0;
};

/// "cpu" or "cuda:N". kNotFound for a device that is not there, kUnavailable without a driver. `hostLoader` may be
/// null: then the CPU loads nothing and answers kUnsupported.
Result<std::unique_ptr<Device>> openDevice(std::string_view name, const HostLoader* hostLoader);

/// Every device of this machine, the CPU last; what the driver refused is a line in `problems`.
std::vector<std::pair<std::string, DeviceInfo>> listDevices(std::vector<std::string>& problems);

}  // namespace tilewright
