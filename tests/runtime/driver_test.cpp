// The CUDA device on a real GPU. Kernels are compiled with NVRTC for the device that is there.
//
// A kernel that faults poisons its process's context, so that test runs in a process of its own (a death test). One
// long file: all tests share the open device and its compiled kernels.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "compiler/nvrtc/nvrtc_compiler.h"
#include "runtime/device.h"
#include "runtime/driver/cuda_device.h"
#include "runtime/driver/cuda_stream.h"
#include "tests/runtime/driver_test_kernels.h"

namespace tilewright {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

/// The device, and the test kernels on it.
struct Gpu {
  static Result<Gpu> open() {
    Gpu gpu;
    gpu.device = TW_TRY(openDevice("cuda:0", nullptr));
    const std::unique_ptr<NvrtcCompiler> compiler = TW_TRY(NvrtcCompiler::open());
    BuildRequest request;
    request.templateId = "test.driver";
    request.source = kDriverTestKernels;
    request.target = gpu.device->info().target;
    gpu.binary = TW_TRY(compiler->build(request));
    gpu.loaded = TW_TRY(gpu.device->load(gpu.binary));
    return gpu;
  }
  KernelHandle find(std::string_view entry) const {
    const auto handle = device->find(*loaded, entry);
    EXPECT_TRUE(handle) << handle.error().message;
    return handle.value_or(KernelHandle{});
  }
  template <typename T>
  DeviceBuffer upload(const std::vector<T>& values) const {
    DeviceBuffer buffer = device->allocate(values.size() * sizeof(T)).value();
    EXPECT_TRUE(device->copyToDevice(buffer.data(), values.data(), values.size() * sizeof(T)));
    return buffer;
  }
  template <typename T>
  std::vector<T> download(const DeviceBuffer& buffer) const {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    const auto synchronized = device->synchronize();
    EXPECT_TRUE(synchronized) << synchronized.error().message;
    EXPECT_TRUE(device->copyToHost(values.data(), buffer.data(), buffer.bytes()));
    return values;
  }

  std::unique_ptr<Device> device;
  Binary binary;
  std::unique_ptr<LoadedBinary> loaded;
};

TEST(DriverTestKernels, compileForEachTarget) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    BuildRequest request;
    request.templateId = "test.driver";
    request.source = kDriverTestKernels;
    request.target = target;
    const auto binary = (*compiler)->build(request);
    EXPECT_TRUE(binary) << target << "\n" << binary.error().log;
  }
}

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Gpu::open();
    if (!opened) {
      // A GPU that is there must work; only its absence, or NVRTC's, skips.
      ASSERT_NE(opened.error().code, ErrorCode::kCompile) << opened.error().log;
      ASSERT_NE(opened.error().code, ErrorCode::kDevice) << opened.error().message;
      GTEST_SKIP() << opened.error().message;
    }
    gpu_.emplace(std::move(*opened));
    device_ = gpu_->device.get();
  }
  void run(LaunchList& launches, std::vector<KernelHandle> kernels) {
    const auto launched = device_->launch(launches, kernels, nullptr);
    ASSERT_TRUE(launched) << launched.error().message;
  }
  bool isHopper() const { return device_->info().computeMajor >= 9; }

  std::optional<Gpu> gpu_;
  Device* device_ = nullptr;
};

TEST_F(DriverTest, describesTheDevice) {
  const DeviceInfo& info = device_->info();
  std::printf(
      "%s: %s, driver %d, %d SMs, %lld MiB, L2 %lld MiB, shared %lld and %lld bytes, %.2f TB/s, %.0f TFLOP/s, %d W\n",
      deviceKey(info).c_str(), info.name.c_str(), info.driverVersion, info.unitCount,
      static_cast<long long>(info.memoryBytes >> 20), static_cast<long long>(info.l2Bytes >> 20),
      static_cast<long long>(info.sharedBytesPerBlock), static_cast<long long>(info.sharedBytesPerUnit),
      info.memoryBytesPerSecond / 1e12, info.bf16FlopPerSecond / 1e12, info.powerLimitWatts);
  EXPECT_EQ(info.kind, DeviceKind::kCuda);
  EXPECT_TRUE(computeCapabilityOf(info.target));
  EXPECT_GT(info.unitCount, 0);
  EXPECT_GE(info.sharedBytesPerBlock, 48 << 10);
  EXPECT_GT(info.memoryBytes, 0);
  EXPECT_GE(info.driverVersion, 12000);
}

TEST_F(DriverTest, runsAKernel) {
  constexpr int kCount = 100003;
  std::vector<float> x(kCount), y(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = static_cast<float>(2 * i);
  const DeviceBuffer deviceX = gpu_->upload(x), deviceY = gpu_->upload(y);
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {(kCount + 255) / 256}, {256});
  launch.arguments.pointer(deviceY.data()), launch.arguments.pointer(deviceX.data());
  launch.arguments.value(3.0f), launch.arguments.value(kCount);
  run(launches, {gpu_->find("saxpy")});
  const auto out = gpu_->download<float>(deviceY);
  // Integers below 2^24 are exact in FP32.
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(out[i], static_cast<float>(5 * i));
}

TEST_F(DriverTest, fillsWithinTheOrderOfLaunches) {
  const DeviceBuffer counter = gpu_->upload(std::vector<int>{77});
  LaunchList launches;
  launches.addFill(counter.data(), 0, sizeof(int));
  launches.addKernel(0, {5}, {32}).arguments.pointer(counter.data());
  run(launches, {gpu_->find("addOne")});
  EXPECT_EQ(gpu_->download<int>(counter)[0], 5 * 32);
}

TEST_F(DriverTest, runsNothingForAnEmptyGrid) {
  const DeviceBuffer counter = gpu_->upload(std::vector<int>{0});
  LaunchList launches;
  launches.addKernel(0, {0}, {32}).arguments.pointer(counter.data());
  launches.addFill(counter.data(), 9, 0);
  run(launches, {gpu_->find("addOne")});
  EXPECT_EQ(gpu_->download<int>(counter)[0], 0);
}

TEST_F(DriverTest, usesAllDynamicSharedMemory) {
  const int count = static_cast<int>(device_->info().sharedBytesPerBlock / sizeof(int));
  const DeviceBuffer out = device_->allocate(count * sizeof(int)).value();
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {1}, {256}, static_cast<std::uint32_t>(count * sizeof(int)));
  launch.arguments.pointer(out.data()), launch.arguments.value(count);
  run(launches, {gpu_->find("reverse")});
  const auto values = gpu_->download<int>(out);
  for (int i = 0; i < count; ++i) ASSERT_EQ(values[i], count - 1 - i);
}

TEST_F(DriverTest, namesEntryAndGeometryOfALaunchThatTheDriverRefuses) {
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {1}, {2048});
  launch.arguments.pointer(nullptr);
  const std::array kernels = {gpu_->find("addOne")};
  const auto launched = device_->launch(launches, kernels, nullptr);
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().code, ErrorCode::kDevice);
  EXPECT_THAT(launched.error().message, HasSubstr("addOne (grid 1x1x1, block 2048x1x1"));
  EXPECT_THAT(launched.error().message, HasSubstr("CUDA_ERROR_"));
  EXPECT_TRUE(device_->synchronize());
}

TEST_F(DriverTest, copiesABoxThroughATensorMap) {
  if (!isHopper()) GTEST_SKIP() << "tensor maps need sm_90";
  // 40 x 20 BF16 elements in rows of 48; the box hangs over both edges, where it reads zeros.
  constexpr int kWidth = 40, kHeight = 20, kPitch = 48, kX = 24, kY = 9;
  std::vector<std::uint16_t> tensor(kPitch * kHeight);
  std::iota(tensor.begin(), tensor.end(), std::uint16_t{1});
  const DeviceBuffer deviceTensor = gpu_->upload(tensor);
  const DeviceBuffer out = gpu_->upload(std::vector<std::uint16_t>(16 * 32, 0xffff));
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {1}, {128});
  launch.arguments.tensorMap({.base = deviceTensor.data(),
                              .element = TensorMap::Element::kBf16,
                              .rank = 2,
                              .size = {kWidth, kHeight},
                              .strideBytes = {kPitch * 2},
                              .box = {32, 16}});
  launch.arguments.pointer(out.data()), launch.arguments.value(kX), launch.arguments.value(kY);
  run(launches, {gpu_->find("copyBox")});
  const auto box = gpu_->download<std::uint16_t>(out);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 32; ++column) {
      const bool inside = kX + column < kWidth && kY + row < kHeight;
      ASSERT_EQ(box[row * 32 + column], inside ? tensor[(kY + row) * kPitch + kX + column] : 0)
          << row << ", " << column;
    }
  }
}

TEST_F(DriverTest, refusesATensorMapThatBreaksARule) {
  if (!isHopper()) GTEST_SKIP() << "tensor maps need sm_90";
  const DeviceBuffer tensor = device_->allocate(4096).value();
  LaunchList launches;
  launches.addKernel(0, {1}, {32})
      .arguments.tensorMap({.base = tensor.data(), .rank = 2, .size = {40, 20}, .strideBytes = {84}, .box = {32, 16}});
  const std::array kernels = {gpu_->find("copyBox")};
  const auto launched = device_->launch(launches, kernels, nullptr);
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(launched.error().message, HasSubstr("size [40, 20], strides [84] bytes, box [32, 16]"));
}

TEST_F(DriverTest, launchesClusters) {
  if (!isHopper()) GTEST_SKIP() << "clusters need sm_90";
  // 16 is beyond the portable size.
  for (const std::uint32_t cluster : {2u, 4u, 16u}) {
    constexpr std::uint32_t kBlocks = 64;
    const DeviceBuffer out = device_->allocate(kBlocks * sizeof(std::uint32_t)).value();
    LaunchList launches;
    Launch& launch = launches.addKernel(0, {kBlocks}, {64});
    launch.cluster = {cluster};
    launch.arguments.pointer(out.data());
    run(launches, {gpu_->find("readNeighbour")});
    const auto neighbours = gpu_->download<std::uint32_t>(out);
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      ASSERT_EQ(neighbours[block], block / cluster * cluster + (block + 1) % cluster) << "cluster of " << cluster;
    }
  }
}

TEST_F(DriverTest, overlapsProgrammaticDependents) {
  if (!isHopper()) GTEST_SKIP() << "programmatic dependent launch needs sm_90";
  constexpr int kCount = 1 << 20;
  const DeviceBuffer data = device_->allocate(kCount * sizeof(int)).value();
  const DeviceBuffer out = device_->allocate(kCount * sizeof(int)).value();
  for (int value = 1; value <= 20; ++value) {
    LaunchList launches;
    Launch& first = launches.addKernel(0, {64}, {256});
    first.programmaticDependent = true;
    first.arguments.pointer(data.data()), first.arguments.value(value), first.arguments.value(kCount);
    Launch& second = launches.addKernel(1, {64}, {256});
    second.programmaticDependent = true;
    second.arguments.pointer(data.data()), second.arguments.pointer(out.data()), second.arguments.value(kCount);
    run(launches, {gpu_->find("produce"), gpu_->find("consume")});
    EXPECT_THAT(gpu_->download<int>(out), Each(value + 1));
  }
}

TEST_F(DriverTest, launchesCooperatively) {
  const auto blocks = static_cast<std::uint32_t>(device_->info().unitCount);
  const DeviceBuffer arrived = gpu_->upload(std::vector<std::uint32_t>{0});
  const DeviceBuffer out = gpu_->upload(std::vector<std::uint32_t>(blocks, 0));
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {blocks}, {128});
  launch.cooperative = true;
  launch.arguments.pointer(arrived.data()), launch.arguments.pointer(out.data());
  run(launches, {gpu_->find("gridBarrier")});
  EXPECT_THAT(gpu_->download<std::uint32_t>(out), Each(blocks));

  launch.grid = {1 << 20};
  const std::array kernels = {gpu_->find("gridBarrier")};
  const auto refused = device_->launch(launches, kernels, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("grid 1048576x1x1"));
  EXPECT_THAT(refused.error().message, HasSubstr("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"));
}

TEST_F(DriverTest, measuresGraphReplays) {
  const DeviceBuffer counter = gpu_->upload(std::vector<int>{0});
  const std::array kernels = {gpu_->find("addOne")};
  LaunchList launches;
  launches.addKernel(0, {1}, {1}).arguments.pointer(counter.data());
  for (const bool flush : {false, true}) {
    const auto times = device_->measure([&](StreamHandle stream) { return device_->launch(launches, kernels, stream); },
                                        {.warmups = 3, .repeats = 7, .flushCache = flush, .restMilliseconds = 1});
    ASSERT_TRUE(times) << times.error().message;
    EXPECT_THAT(*times, SizeIs(7));
    EXPECT_THAT(*times, Each(Gt(0.0)));
    std::printf("a kernel that adds one, %s flush: %.2f us\n", flush ? "after a" : "without", (*times)[3]);
  }
  // Per measurement: one direct run, three warm-ups, seven repeats; a capture runs nothing.
  EXPECT_EQ(gpu_->download<int>(counter)[0], 2 * (1 + 3 + 7));
}

TEST_F(DriverTest, measuresTheCopyBandwidth) {
  // Printed for the reader, beside the nominal rate; not asserted.
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const int count = static_cast<int>(kBytes / sizeof(float));
  const DeviceBuffer x = device_->allocate(kBytes).value(), y = device_->allocate(kBytes).value();
  ASSERT_TRUE(device_->fill(x.data(), 1, kBytes) && device_->fill(y.data(), 1, kBytes));
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {static_cast<std::uint32_t>(count / 256)}, {256});
  launch.arguments.pointer(y.data()), launch.arguments.pointer(x.data());
  launch.arguments.value(1.0f), launch.arguments.value(count);
  const std::array kernels = {gpu_->find("saxpy")};
  const auto times =
      device_->measure([&](StreamHandle stream) { return device_->launch(launches, kernels, stream); }, {});
  ASSERT_TRUE(times) << times.error().message;
  std::vector<double> sorted = *times;
  std::ranges::sort(sorted);
  std::printf("saxpy of 1 GiB: median %.1f us, %.2f TB/s of %.2f\n", sorted[sorted.size() / 2],
              3.0 * kBytes / sorted[sorted.size() / 2] / 1e6, device_->info().memoryBytesPerSecond / 1e12);
}

TEST_F(DriverTest, capturesAKernelThatNeverRan) {
  const std::unique_ptr<LoadedBinary> fresh = device_->load(gpu_->binary).value();
  const std::array kernels = {device_->find(*fresh, "addOne").value()};
  const DeviceBuffer counter = gpu_->upload(std::vector<int>{0});
  const std::unique_ptr<CudaStream> stream = createCudaStream(0).value();
  const auto captured = stream->capture([&](StreamHandle handle) {
    LaunchList launches;
    launches.addKernel(0, {2}, {32}).arguments.pointer(counter.data());
    return device_->launch(launches, kernels, handle);
  });
  ASSERT_TRUE(captured) << captured.error().message;
  EXPECT_EQ(gpu_->download<int>(counter)[0], 0) << "a capture must run nothing";
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->replay());
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(gpu_->download<int>(counter)[0], 3 * 2 * 32);
}

TEST_F(DriverTest, measuresTheHostCostOfALaunch) {
  // Printed for the reader: what the host spends per launch, argument lists and tensor maps included.
  if (!isHopper()) GTEST_SKIP() << "tensor maps need sm_90";
  const DeviceBuffer memory = device_->allocate(1 << 20).value();
  const std::array kernels = {gpu_->find("addOne"), gpu_->find("copyBox")};
  const auto time = [&](const char* what, auto add) {
    constexpr int kLaunches = 500;  // fewer than the driver queues, so that the host never waits for the GPU
    double best = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) {
        LaunchList launches;
        add(launches);
        ASSERT_TRUE(device_->launch(launches, kernels, nullptr));
      }
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      best = std::min(best, elapsed.count() / kLaunches);
      ASSERT_TRUE(device_->synchronize());
    }
    std::printf("host cost of a launch %s: %.2f us\n", what, best);
  };
  const auto addPlain = [&](LaunchList& launches) {
    launches.addKernel(0, {1}, {32}).arguments.pointer(memory.data());
  };
  const auto addMapped = [&](LaunchList& launches) {
    Launch& launch = launches.addKernel(1, {1}, {128});
    launch.arguments.tensorMap(
        {.base = memory.data(), .rank = 2, .size = {256, 256}, .strideBytes = {512}, .box = {32, 16}});
    launch.arguments.pointer(static_cast<char*>(memory.data()) + (1 << 19));
    launch.arguments.value(0), launch.arguments.value(0);
  };
  time("with one pointer", addPlain);
  time("with a tensor map", addMapped);
}

TEST_F(DriverTest, handsOnWhatFailsWhileItMeasures) {
  int calls = 0;
  const auto times = device_->measure(
      [&](StreamHandle) -> Result<void> {
        // The direct run succeeds, the capture fails.
        if (++calls == 2) return fail(ErrorCode::kTimeout, "no");
        return {};
      },
      {});
  ASSERT_FALSE(times);
  EXPECT_EQ(times.error().code, ErrorCode::kTimeout);
  EXPECT_TRUE(device_->synchronize()) << "the failed capture must leave nothing behind";
}

TEST_F(DriverTest, launchesFromSeveralThreads) {
  const DeviceBuffer counter = gpu_->upload(std::vector<int>{0});
  const std::array kernels = {gpu_->find("addOne")};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        LaunchList launches;
        launches.addKernel(0, {1}, {32}).arguments.pointer(counter.data());
        EXPECT_TRUE(device_->launch(launches, kernels, nullptr));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gpu_->download<int>(counter)[0], 4 * 100 * 32);
}

TEST_F(DriverTest, checksABinaryBeforeItLoads) {
  Binary corrupt = gpu_->binary;
  corrupt.bytes[100] ^= std::byte{1};
  EXPECT_EQ(device_->load(corrupt).error().code, ErrorCode::kCorrupt);
  Binary foreign = gpu_->binary;
  foreign.target = device_->info().computeMajor == 8 ? "sm_90a" : "sm_80";
  EXPECT_EQ(device_->load(foreign).error().code, ErrorCode::kUnsupported);
  Binary nonsense = gpu_->binary;
  nonsense.bytes.assign(64, std::byte{'x'});
  nonsense.hash = sha256Hex(nonsense.bytes);
  const auto loaded = device_->load(nonsense);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("CUDA_ERROR_"));
  const auto missing = device_->find(*gpu_->loaded, "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("nothing"));
}

TEST_F(DriverTest, tellsItsMemoryFromOthers) {
  const DeviceBuffer buffer = device_->allocate(1024).value();
  EXPECT_TRUE(device_->checkAddress(buffer.data()));
  EXPECT_TRUE(device_->checkAddress(static_cast<char*>(buffer.data()) + 1000));
  const auto wild = device_->checkAddress(reinterpret_cast<const void*>(std::uintptr_t{64}));
  // Systems with one page table for both sides accept any address.
  if (!wild) {
    EXPECT_EQ(wild.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(wild.error().message, HasSubstr("0x40 is no memory of CUDA's"));
  }
}

TEST_F(DriverTest, refusesMoreMemoryThanThereIs) {
  const auto buffer = device_->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
}

TEST_F(DriverTest, refusesADeviceThatIsNotThere) {
  const int count = cudaDeviceCount().value();
  const auto missing = openDevice(fmt::format("cuda:{}", count), nullptr);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(fmt::format("cuda:{}: the driver has {} device", count, count)));
}

/// Ends the process: 0 if a fault is reported when the device is synchronized, and again by the next call.
void faultAndExit() {
  auto gpu = Gpu::open();
  if (!gpu) std::_Exit(2);
  LaunchList launches;
  launches.addKernel(0, {1}, {1}).arguments.pointer(nullptr);
  const std::array kernels = {gpu->find("writeThrough")};
  if (!gpu->device->launch(launches, kernels, nullptr)) std::_Exit(3);
  const auto synchronized = gpu->device->synchronize();
  if (synchronized || synchronized.error().code != ErrorCode::kDevice) std::_Exit(4);
  std::fprintf(stderr, "%s\n", synchronized.error().message.c_str());
  const auto after = gpu->device->allocate(1024);
  std::_Exit(after || after.error().code != ErrorCode::kDevice ? 5 : 0);
}

TEST_F(DriverTest, reportsAFaultAndStaysFailed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(faultAndExit(), testing::ExitedWithCode(0), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

}  // namespace
}  // namespace tilewright
