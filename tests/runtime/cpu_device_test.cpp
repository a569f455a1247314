// The CPU as a device, with host code of the test's own in place of the tile compiler's.
#include "runtime/host/cpu_device.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <map>
#include <thread>

#include "base/hash.h"
#include "runtime/host/cpu_info.h"

namespace tilewright {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

/// out[program] = a * x[program] + y[program]; arguments: out, x, y, a.
void axpy(const std::uint64_t* arguments, std::int64_t program, std::int64_t, std::int64_t) {
  auto* out = std::bit_cast<float*>(arguments[0]);
  const auto* x = std::bit_cast<const float*>(arguments[1]);
  const auto* y = std::bit_cast<const float*>(arguments[2]);
  const auto a = std::bit_cast<float>(static_cast<std::uint32_t>(arguments[3]));
  out[program] = a * x[program] + y[program];
}

/// counts[x + 3 * (y + 5 * z)] += 1 for a grid of 3 x 5 x 7.
void countPrograms(const std::uint64_t* arguments, std::int64_t x, std::int64_t y, std::int64_t z) {
  std::atomic_ref(std::bit_cast<int*>(arguments[0])[x + 3 * (y + 5 * z)]).fetch_add(1);
}

/// Waits until another program runs too, on another thread.
void meet(const std::uint64_t* arguments, std::int64_t, std::int64_t, std::int64_t) {
  std::atomic_ref<int> running(*std::bit_cast<int*>(arguments[0]));
  ++running;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (running < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

class FakeCode final : public HostCode {
 public:
  Result<Entry> find(std::string_view entry) const override {
    static const std::map<std::string_view, Entry> kEntries = {
        {"axpy", axpy}, {"count", countPrograms}, {"meet", meet}};
    const auto found = kEntries.find(entry);
    if (found == kEntries.end()) return fail(ErrorCode::kNotFound, "no entry {}", entry);
    return found->second;
  }
};

class FakeLoader final : public HostLoader {
 public:
  Result<std::unique_ptr<HostCode>> load(const Binary&) const override { return std::make_unique<FakeCode>(); }
};

Binary binary() {
  Binary binary;
  binary.bytes.resize(3, std::byte{7});
  binary.hash = sha256Hex(binary.bytes);
  binary.target = "x86-64";
  return binary;
}

class CpuDeviceTest : public testing::Test {
 protected:
  KernelHandle find(Device& device, std::string_view entry) {
    loaded_ = device.load(binary()).value();
    return device.find(*loaded_, entry).value();
  }

  FakeLoader loader_;
  std::unique_ptr<LoadedBinary> loaded_;
};

TEST_F(CpuDeviceTest, runsAKernelOverItsGrid) {
  const auto device = makeCpuDevice(&loader_);
  constexpr std::uint32_t kCount = 1000;
  std::vector<float> x(kCount), y(kCount), out(kCount, -1.0f);
  for (std::uint32_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
  LaunchList launches;
  Launch& launch = launches.addKernel(0, {kCount}, {1});
  launch.arguments.pointer(out.data()), launch.arguments.pointer(x.data()), launch.arguments.pointer(y.data());
  launch.arguments.value(2.0f);
  const std::array kernels = {find(*device, "axpy")};
  ASSERT_TRUE(device->launch(launches, kernels, nullptr));
  for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i], 2.0f * static_cast<float>(i) + 0.5f);
}

TEST_F(CpuDeviceTest, runsEachProgramOfAThreeDimensionalGridOnce) {
  for (const int threads : {1, 2, 0}) {
    const auto device = makeCpuDevice(&loader_, threads);
    std::array<int, 3 * 5 * 7> counts{};
    LaunchList launches;
    launches.addKernel(0, {3, 5, 7}, {1}).arguments.pointer(counts.data());
    const std::array kernels = {find(*device, "count")};
    ASSERT_TRUE(device->launch(launches, kernels, nullptr));
    EXPECT_THAT(counts, Each(1)) << threads << " threads";
  }
}

TEST_F(CpuDeviceTest, runsNothingForAnEmptyGrid) {
  const auto device = makeCpuDevice(&loader_);
  int count = 0;
  LaunchList launches;
  launches.addKernel(0, {3, 0, 7}, {1}).arguments.pointer(&count);
  const std::array kernels = {find(*device, "count")};
  ASSERT_TRUE(device->launch(launches, kernels, nullptr));
  EXPECT_EQ(count, 0);
}

TEST_F(CpuDeviceTest, runsProgramsOnSeveralThreads) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one hardware thread: nothing runs at once";
  const auto device = makeCpuDevice(&loader_, 2);
  int running = 0;
  LaunchList launches;
  launches.addKernel(0, {2}, {1}).arguments.pointer(&running);
  const std::array kernels = {find(*device, "meet")};
  ASSERT_TRUE(device->launch(launches, kernels, nullptr));
  EXPECT_EQ(running, 2);
}

TEST_F(CpuDeviceTest, runsLaunchesAndFillsInOrder) {
  const auto device = makeCpuDevice(&loader_);
  std::array<int, 105> counts;
  counts.fill(99);
  LaunchList launches;
  launches.addFill(counts.data(), 0, sizeof(counts));
  launches.addKernel(0, {3, 5, 7}, {1}).arguments.pointer(counts.data());
  launches.addFill(counts.data(), 0, sizeof(int));
  const std::array kernels = {find(*device, "count")};
  ASSERT_TRUE(device->launch(launches, kernels, nullptr));
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[104], 1);
}

TEST_F(CpuDeviceTest, refusesWhatOnlyAGpuTakes) {
  const auto device = makeCpuDevice(&loader_);
  const std::array kernels = {find(*device, "count")};
  LaunchList maps;
  maps.addKernel(0, {1}, {1}).arguments.tensorMap({});
  EXPECT_THAT(device->launch(maps, kernels, nullptr).error().message, HasSubstr("tensor maps"));
  LaunchList wide;
  wide.addKernel(0, {1}, {1}).arguments.value(std::array<char, 12>{});
  EXPECT_THAT(device->launch(wide, kernels, nullptr).error().message, HasSubstr("argument 0 has 12 bytes"));
  LaunchList unknown;
  unknown.addKernel(1, {1}, {1});
  EXPECT_THAT(device->launch(unknown, kernels, nullptr).error().message, HasSubstr("the plan has 1"));
}

TEST_F(CpuDeviceTest, checksABinaryBeforeItLoads) {
  const auto device = makeCpuDevice(&loader_);
  Binary corrupt = binary();
  corrupt.bytes[1] = std::byte{8};
  EXPECT_EQ(device->load(corrupt).error().code, ErrorCode::kCorrupt);
  Binary foreign = binary();
  foreign.target = "sm_90a";
  EXPECT_EQ(device->load(foreign).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(makeCpuDevice(nullptr)->load(binary()).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(device->find(*device->load(binary()).value(), "nothing").error().code, ErrorCode::kNotFound);
}

TEST_F(CpuDeviceTest, allocatesAlignedAndRefusesTooMuch) {
  const auto device = makeCpuDevice(&loader_);
  for (const std::size_t bytes : {0, 1, 64, 1000}) {
    const DeviceBuffer buffer = device->allocate(bytes).value();
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_NE(buffer.data(), nullptr);
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  }
  const auto huge = device->allocate(std::size_t{1} << 62);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kOutOfMemory);
}

TEST_F(CpuDeviceTest, copiesAndFills) {
  const auto device = makeCpuDevice(&loader_);
  const DeviceBuffer buffer = device->allocate(4).value();
  const std::array<unsigned char, 4> in = {1, 2, 3, 4};
  std::array<unsigned char, 4> out{};
  ASSERT_TRUE(device->copyToDevice(buffer.data(), in.data(), 4));
  ASSERT_TRUE(device->fill(buffer.data(), 9, 2));
  ASSERT_TRUE(device->copyToHost(out.data(), buffer.data(), 4));
  EXPECT_THAT(out, testing::ElementsAre(9, 9, 3, 4));
  EXPECT_TRUE(device->synchronize());
}

TEST_F(CpuDeviceTest, measuresEachRepeat) {
  const auto device = makeCpuDevice(&loader_);
  int runs = 0;
  const auto times = device->measure(
      [&](StreamHandle) -> Result<void> {
        ++runs;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        return {};
      },
      {.warmups = 2, .repeats = 5});
  ASSERT_TRUE(times);
  EXPECT_EQ(runs, 7);
  // sleep_for never returns early, so this is no assertion about speed.
  EXPECT_THAT(*times, SizeIs(5));
  EXPECT_THAT(*times, Each(Gt(49.0)));
}

TEST_F(CpuDeviceTest, handsOnWhatFailsWhileItMeasures) {
  const auto device = makeCpuDevice(&loader_);
  const auto times = device->measure([](StreamHandle) -> Result<void> { return fail(ErrorCode::kTimeout, "no"); }, {});
  ASSERT_FALSE(times);
  EXPECT_EQ(times.error().code, ErrorCode::kTimeout);
}

TEST(CpuInfo, describesThisMachine) {
  const DeviceInfo info = describeCpu();
  EXPECT_EQ(info.kind, DeviceKind::kCpu);
  EXPECT_FALSE(info.name.empty());
  EXPECT_TRUE(nominalDevice(info.target)) << info.target;
  EXPECT_GE(info.unitCount, 1);
  EXPECT_GT(info.l2Bytes, 0);
  EXPECT_GT(info.memoryBytes, 0);
  EXPECT_GT(info.bf16FlopPerSecond, 0);
}

TEST(CpuInfo, ordersTheTargets) {
  EXPECT_TRUE(cpuRuns("x86-64", "x86-64-v4"));
  EXPECT_TRUE(cpuRuns("x86-64-v3", "x86-64-v3"));
  EXPECT_FALSE(cpuRuns("x86-64-v4", "x86-64-v3"));
  EXPECT_FALSE(cpuRuns("sm_90a", "x86-64-v4"));
}

}  // namespace
}  // namespace tilewright
