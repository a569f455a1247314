// NVRTC on real kernels for several GPUs, none of which need be present.
#include "compiler/nvrtc/nvrtc_compiler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "base/hash.h"

namespace tilewright {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kSaxpy = R"(
#include "lib/index.cuh"
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x & 63] = a;
  __syncthreads();
  if (globalThread() < n) y[globalThread()] += tile[(threadIdx.x + 1) & 63] * x[globalThread()];
}
)";

// Two mma in one group, whose accumulators nothing else touches in between.
constexpr std::string_view kWgmma = R"(
extern "C" __global__ void __launch_bounds__(128) wgmma(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  #pragma unroll
  for (int i = 0; i < 2; ++i)
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a + 2 * i), "l"(b + 2 * i));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
)";

// The accumulators are scaled between two mma of one group: ptxas must wait in between.
constexpr std::string_view kSerializedWgmma = R"(
extern "C" __global__ void __launch_bounds__(128) wgmma(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < 4; ++i) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    d[i] *= 2.0f;
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
)";

// 200 live floats in at most 64 registers (1024 threads per block).
constexpr std::string_view kSpilling = R"(
extern "C" __global__ void __launch_bounds__(1024) spilling(float* p) {
  float v[200];
  #pragma unroll
  for (int i = 0; i < 200; ++i) v[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 200; ++i) p[i * 1024 + threadIdx.x] = v[i] * v[(i + 7) % 200];
}
)";

BuildRequest request(std::string_view source, std::string target, std::string entry) {
  BuildRequest request;
  request.templateId = "test.kernel";
  request.source = source;
  request.includes = {{"lib/index.cuh",
                       "constexpr int kOne = 1;\ninline int globalThread() { return blockIdx.x * blockDim.x "
                       "+ threadIdx.x * kOne; }\n"}};
  request.parameters = {{"tile_m", "96"}};
  request.target = std::move(target);
  request.entries = {std::move(entry)};
  return request;
}

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = NvrtcCompiler::open();
    if (!opened) GTEST_SKIP() << "no NVRTC on this machine: " << opened.error().message;
    compiler_ = std::move(*opened);
  }
  bool knows(int capability) const {
    return std::ranges::find(compiler_->capabilities(), capability) != compiler_->capabilities().end();
  }

  std::unique_ptr<NvrtcCompiler> compiler_;
};

TEST_F(Nvrtc, identifiesItselfWithItsBuildNumber) {
  EXPECT_THAT(compiler_->identity(), testing::MatchesRegex("nvrtc [0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST_F(Nvrtc, handlesCudaForGpusOnly) {
  EXPECT_TRUE(compiler_->handles(SourceKind::kCuda, "sm_90a"));
  EXPECT_FALSE(compiler_->handles(SourceKind::kTile, "sm_90a"));
  EXPECT_FALSE(compiler_->handles(SourceKind::kCuda, "x86-64-v3"));
}

TEST_F(Nvrtc, buildsForEachArchitecture) {
  for (const auto& [target, capability] :
       {std::pair{"sm_75", 75}, {"sm_80", 80}, {"sm_90a", 90}, {"sm_100a", 100}, {"sm_120a", 120}}) {
    SCOPED_TRACE(target);
    if (!knows(capability)) continue;
    const auto binary = compiler_->build(request(kSaxpy, target, "saxpy"));
    ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
    EXPECT_EQ(binary->target, target);
    EXPECT_EQ(binary->compiler, compiler_->identity());
    EXPECT_EQ(binary->hash, sha256Hex(binary->bytes));
    EXPECT_EQ(binary->buildKey, buildKey(request(kSaxpy, target, "saxpy"), compiler_->identity()));
    ASSERT_EQ(binary->kernels.size(), 1u);
    EXPECT_EQ(binary->kernels[0].entry, "saxpy");
    EXPECT_GT(binary->kernels[0].registers, 4);
    // Blackwell reserves a further 1024 bytes of every block for the system.
    EXPECT_THAT(binary->kernels[0].sharedBytes, AnyOf(64 * 4, 64 * 4 + 1024));
    EXPECT_EQ(binary->spillBytes(), 0);
    EXPECT_THAT(binary->warnings, IsEmpty());
    // An ELF file for machine EM_CUDA, 190.
    ASSERT_GT(binary->bytes.size(), 64u);
    EXPECT_EQ(static_cast<char>(binary->bytes[1]), 'E');
    EXPECT_EQ(std::to_integer<int>(binary->bytes[18]), 190);
  }
}

TEST_F(Nvrtc, buildsWgmmaWithoutSerialization) {
  const auto binary = compiler_->build(request(kWgmma, "sm_90a", "wgmma"));
  ASSERT_TRUE(binary) << binary.error().log;
  EXPECT_FALSE(binary->wgmmaSerialized()) << binary->log;
}

TEST_F(Nvrtc, reportsSerializedWgmma) {
  const auto binary = compiler_->build(request(kSerializedWgmma, "sm_90a", "wgmma"));
  ASSERT_TRUE(binary) << binary.error().log;
  EXPECT_TRUE(binary->wgmmaSerialized()) << binary->log;
}

TEST_F(Nvrtc, refusesWgmmaForTheGenericTarget) {
  const auto binary = compiler_->build(request(kWgmma, "sm_90", "wgmma"));
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::kCompile);
  EXPECT_THAT(binary.error().log, HasSubstr("not supported on .target 'sm_90'"));
}

TEST_F(Nvrtc, countsSpills) {
  const auto binary = compiler_->build(request(kSpilling, "sm_90a", "spilling"));
  ASSERT_TRUE(binary) << binary.error().log;
  EXPECT_EQ(binary->kernels[0].registers, 64);
  // 200 values of 4 bytes need at least 136 stored and loaded once each, beyond the 64 registers.
  EXPECT_GE(binary->spillBytes(), 2 * 136 * 4);
  EXPECT_GT(binary->kernels[0].stackBytes, 0);
}

TEST_F(Nvrtc, failsWithTheLog) {
  const auto binary = compiler_->build(request("extern \"C\" __global__ void f() { undeclared(); }", "sm_90a", "f"));
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::kCompile);
  EXPECT_THAT(binary.error().message,
              HasSubstr("cannot build test.kernel {tile_m=96} for sm_90a: test.kernel.cu(1): error"));
  EXPECT_THAT(binary.error().log, HasSubstr("\"undeclared\" is undefined"));
}

TEST_F(Nvrtc, readsNoHeaderFromDisk) {
  const auto binary =
      compiler_->build(request("#include <stdint.h>\nextern \"C\" __global__ void f() {}", "sm_90a", "f"));
  ASSERT_FALSE(binary);
  EXPECT_THAT(binary.error().log, HasSubstr("stdint.h"));
}

TEST_F(Nvrtc, namesAMissingEntry) {
  const auto binary = compiler_->build(request(kSaxpy, "sm_90a", "daxpy"));
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::kCompile);
  EXPECT_THAT(binary.error().message, HasSubstr("no kernel 'daxpy' (it has: saxpy)"));
}

TEST_F(Nvrtc, refusesWhatItCannotCompileFor) {
  const auto old = compiler_->build(request(kSaxpy, "sm_35", "saxpy"));
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(old.error().message, HasSubstr("compiles for sm_"));
  const auto wrong = compiler_->build(request(kSaxpy, "x86-64-v3", "saxpy"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Nvrtc, refusesOptionsThatTheKeyCannotCover) {
  for (const char* option : {"-I/usr/include", "--gpu-architecture=sm_80", "-include=x.h"}) {
    BuildRequest changed = request(kSaxpy, "sm_90a", "saxpy");
    changed.options = {option};
    const auto binary = compiler_->build(changed);
    ASSERT_FALSE(binary) << option;
    EXPECT_EQ(binary.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(binary.error().message, HasSubstr(option));
  }
  BuildRequest unknown = request(kSaxpy, "sm_90a", "saxpy");
  unknown.options = {"--no-such-option"};
  EXPECT_EQ(compiler_->build(unknown).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Nvrtc, buildsTheSameBytesTwiceAndFromTwoThreads) {
  const auto first = compiler_->build(request(kSaxpy, "sm_90a", "saxpy"));
  ASSERT_TRUE(first);
  Result<Binary> second = fail(ErrorCode::kInternal, "not run"), third = second;
  std::thread left([&] { second = compiler_->build(request(kSaxpy, "sm_90a", "saxpy")); });
  std::thread right([&] { third = compiler_->build(request(kSaxpy, "sm_90a", "saxpy")); });
  left.join(), right.join();
  ASSERT_TRUE(second && third);
  EXPECT_EQ(first->hash, second->hash);
  EXPECT_EQ(first->hash, third->hash);
}

TEST_F(Nvrtc, emitsPtx) {
  const auto ptx = compiler_->emitPtx(request(kWgmma, "sm_90a", "wgmma"));
  ASSERT_TRUE(ptx) << ptx.error().log;
  EXPECT_THAT(*ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(*ptx, HasSubstr(".visible .entry wgmma("));
}

TEST(NvrtcLibrary, saysWhatItTried) {
  const auto missing = NvrtcCompiler::open({.library = "/nowhere/libnvrtc.so.13"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/libnvrtc.so.13"));
}

TEST(NvrtcLibrary, refusesALibraryThatIsNotNvrtc) {
  const auto wrong = NvrtcCompiler::open({.library = "libm.so.6"});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("libm.so.6 has no function nvrtcVersion"));
}

}  // namespace
}  // namespace tilewright
