#include "runtime/host/cpu_device.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "runtime/host/cpu_info.h"

namespace tilewright {
namespace {

constexpr std::size_t kAlignment = 64;

class CpuBinary final : public LoadedBinary {
 public:
  explicit CpuBinary(std::unique_ptr<HostCode> code) : code_(std::move(code)) {}
  const HostCode& code() const { return *code_; }

 private:
  std::unique_ptr<HostCode> code_;
};

/// The arguments as a host entry reads them: 8 bytes each, narrower values in the low bytes.
using Slots = std::array<std::uint64_t, KernelArguments::kMaximumCount>;

Result<void> fillSlots(const KernelArguments& arguments, Slots& slots) {
  if (!arguments.maps().empty()) return fail(ErrorCode::kInternal, "cannot launch on the CPU: it has no tensor maps");
  for (int i = 0; i < arguments.count(); ++i) {
    if (arguments.slotBytes(i) > static_cast<int>(sizeof(std::uint64_t))) {
      return fail(ErrorCode::kInternal, "cannot launch on the CPU: argument {} has {} bytes, at most 8 fit", i,
                  arguments.slotBytes(i));
    }
    slots[i] = 0;
    std::memcpy(&slots[i], arguments.slot(i), static_cast<std::size_t>(arguments.slotBytes(i)));
  }
  return {};
}

class CpuDevice final : public Device {
 public:
  CpuDevice(const HostLoader* loader, int threads)
      : loader_(loader), info_(describeCpu()), threads_(threads > 0 ? threads : info_.unitCount), arena_(threads_) {}

  const DeviceInfo& info() const override { return info_; }
  Result<std::unique_ptr<LoadedBinary>> load(const Binary& binary) override;
  Result<KernelHandle> find(LoadedBinary& binary, std::string_view entry) override;
  Result<void> launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle stream) override;
  Result<DeviceBuffer> allocate(std::size_t bytes) override;
  Result<void> copyToDevice(void* device, const void* host, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return {};
  }
  Result<void> copyToHost(void* host, const void* device, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return {};
  }
  Result<void> fill(void* device, std::uint8_t value, std::size_t bytes) override {
    if (bytes > 0) std::memset(device, value, bytes);
    return {};
  }
  Result<void> synchronize() override { return {}; }
  Result<std::vector<double>> measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                      const MeasureOptions& options) override;

 private:
  void runGrid(HostCode::Entry entry, const Slots& slots, Dim3 grid);

  const HostLoader* loader_;
  DeviceInfo info_;
  int threads_;
  oneapi::tbb::task_arena arena_;
};

Result<std::unique_ptr<LoadedBinary>> CpuDevice::load(const Binary& binary) {
  if (loader_ == nullptr) {
    return fail(ErrorCode::kUnsupported, "cannot load a kernel on the CPU: this program has no tile compiler");
  }
  if (sha256Hex(binary.bytes) != binary.hash) {
    return fail(ErrorCode::kCorrupt, "cannot load binary {}: its bytes do not match its hash", binary.hash);
  }
  if (!cpuRuns(binary.target, info_.target)) {
    return fail(ErrorCode::kUnsupported, "cannot load binary {}: it was made for {}, the device is {}", binary.hash,
                binary.target, info_.target);
  }
  std::unique_ptr<HostCode> code = TW_TRY(loader_->load(binary));
  return std::make_unique<CpuBinary>(std::move(code));
}

Result<KernelHandle> CpuDevice::find(LoadedBinary& binary, std::string_view entry) {
  const HostCode::Entry function = TW_TRY(static_cast<CpuBinary&>(binary).code().find(entry));
  return KernelHandle{reinterpret_cast<void*>(function)};
}

void CpuDevice::runGrid(HostCode::Entry entry, const Slots& slots, Dim3 grid) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t program = begin; program < end; ++program) {
      const std::int64_t rest = program / grid.x;
      entry(slots.data(), program % grid.x, rest % grid.y, rest / grid.y);
    }
  };
  const std::int64_t programs = std::int64_t{grid.x} * grid.y * grid.z;
  if (threads_ == 1 || programs == 1) return run(0, programs);
  using Range = oneapi::tbb::blocked_range<std::int64_t>;
  arena_.execute([&] {
    oneapi::tbb::parallel_for(Range(0, programs), [&](const Range& range) { run(range.begin(), range.end()); });
  });
}

Result<void> CpuDevice::launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle) {
  for (const Launch& launch : std::as_const(launches).launches()) {
    if (launch.kind == Launch::Kind::kFill) {
      if (launch.fillBytes > 0) std::memset(launch.fillTarget, launch.fillValue, launch.fillBytes);
      continue;
    }
    if (launch.kernel < 0 || static_cast<std::size_t>(launch.kernel) >= kernels.size()) {
      return fail(ErrorCode::kInternal, "cannot launch kernel {}: the plan has {}", launch.kernel, kernels.size());
    }
    Slots slots;
    TW_TRY(fillSlots(launch.arguments, slots));
    runGrid(reinterpret_cast<HostCode::Entry>(kernels[launch.kernel].function), slots, launch.grid);
  }
  return {};
}

Result<DeviceBuffer> CpuDevice::allocate(std::size_t bytes) {
  // NOTE: Linux hands out more than it has and kills the process later, so what can never fit is refused here.
  void* data = nullptr;
  if (bytes <= static_cast<std::size_t>(info_.memoryBytes)) {
    // Whole vectors; an empty buffer has an address too.
    data = std::aligned_alloc(kAlignment, (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
  }
  if (data == nullptr) {
    return fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes: the machine has {}", bytes, info_.memoryBytes);
  }
  return DeviceBuffer(data, bytes, [](void* pointer) { std::free(pointer); });
}

/// Displaces what the caches hold: reads and writes each line of a buffer larger than the last level, 64 MB at most.
class CacheFlush {
 public:
  explicit CacheFlush(std::int64_t cacheBytes)
      : words_(static_cast<std::size_t>(std::clamp<std::int64_t>(2 * cacheBytes, 8 << 20, 64 << 20)) /
               sizeof(words_[0])) {}

  void operator()() {
    constexpr std::size_t kWordsPerLine = 64 / sizeof(std::uint64_t);
    for (std::size_t i = 0; i < words_.size(); i += kWordsPerLine) words_[i] += i;
    // The compiler must not find out that nobody reads the words.
    asm volatile("" ::"r"(words_.data()) : "memory");
  }

 private:
  std::vector<std::uint64_t> words_;
};

Result<std::vector<double>> CpuDevice::measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                               const MeasureOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (options.restMilliseconds > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.restMilliseconds));
  }
  for (int i = 0; i < options.warmups; ++i) TW_TRY(enqueue(nullptr));
  CacheFlush flush(options.flushCache ? info_.l2Bytes : 0);
  std::vector<double> microseconds;
  for (int i = 0; i < options.repeats; ++i) {
    if (options.flushCache) flush();
    const Clock::time_point start = Clock::now();
    TW_TRY(enqueue(nullptr));
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return microseconds;
}

}  // namespace

std::unique_ptr<Device> makeCpuDevice(const HostLoader* loader, int threads) {
  return std::make_unique<CpuDevice>(loader, threads);
}

}  // namespace tilewright
