// The log parser over logs that NVRTC and nvcc 13.0.88 really printed.
#include "compiler/nvrtc/build_log.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct LogCase {
  std::string_view name;
  std::string_view log;
  std::vector<KernelResources> kernels;
  std::vector<std::string> warningParts;  ///< a substring of each warning, in order
};

// Three kernels for sm_75: static shared memory, spills, a stack frame without spills, and a front end warning.
constexpr std::string_view kSpills = R"(k.cu(8): warning #177-D: variable "z" was declared but never referenced
  extern "C" __global__ void unused(float*p){int z; p[0]=tab[threadIdx.x];}
                                                 ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas warning : Value of threads per SM for entry spills is out of range. .minnctapersm will be ignored
ptxas warning : Registers are spilled to local memory in function 'spills', 1372 bytes spill stores, 1400 bytes spill loads
ptxas info    : 0 bytes gmem, 400 bytes cmem[3]
ptxas info    : Compiling entry function 'stacky' for 'sm_75'
ptxas info    : Function properties for stacky
ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 62 registers, used 0 barriers, 256 bytes cumulative stack size, 368 bytes cmem[0]
ptxas info    : Compile time = 17.249 ms
ptxas info    : Compiling entry function 'spills' for 'sm_75'
ptxas info    : Function properties for spills
ptxas         .     696 bytes stack frame, 1372 bytes spill stores, 1400 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 696 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compile time = 50.615 ms
ptxas info    : Compiling entry function 'saxpy' for 'sm_75'
ptxas info    : Function properties for saxpy
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 128 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 2.401 ms
)";

constexpr std::string_view kSerialized =
    R"(ptxas info    : (C7519) warpgroup.arrive is injected in around line 42 by compiler to allow use of registers in GMMA in function 'wg'
ptxas info    : (C7517) warpgroup.wait is injected in around line 40 by compiler to allow use of registers defined by GMMA in function 'wg'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'wg'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'wg' for 'sm_90a'
ptxas info    : Function properties for wg
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
ptxas info    : Compile time = 6.864 ms
)";

// A function that was not inlined is reported after each entry that calls it.
constexpr std::string_view kCallee = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1tILi3EEvPf' for 'sm_90a'
ptxas info    : Function properties for _Z1tILi3EEvPf
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'k2' for 'sm_90a'
ptxas info    : Function properties for k2
ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers, 256 bytes cumulative stack size
ptxas info    : Compile time = 10.116 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
)";

constexpr std::string_view kIgnoredSetmaxnreg =
    R"(ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'setbad' for 'sm_90a'
ptxas info    : Function properties for setbad
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
)";

KernelResources kernel(std::string entry, int registers, int spill, int stack, int shared) {
  return {.entry = std::move(entry),
          .registers = registers,
          .spillBytes = spill,
          .stackBytes = stack,
          .sharedBytes = shared};
}

class BuildLogCase : public testing::TestWithParam<LogCase> {};

TEST_P(BuildLogCase, isRead) {
  const BuildLog log = parseBuildLog(GetParam().log);
  ASSERT_EQ(log.kernels.size(), GetParam().kernels.size());
  for (std::size_t i = 0; i < log.kernels.size(); ++i) {
    const KernelResources &got = log.kernels[i], &want = GetParam().kernels[i];
    EXPECT_EQ(got.entry, want.entry);
    EXPECT_EQ(got.registers, want.registers) << want.entry;
    EXPECT_EQ(got.spillBytes, want.spillBytes) << want.entry;
    EXPECT_EQ(got.stackBytes, want.stackBytes) << want.entry;
    EXPECT_EQ(got.sharedBytes, want.sharedBytes) << want.entry;
  }
  ASSERT_EQ(log.warnings.size(), GetParam().warningParts.size()) << testing::PrintToString(log.warnings);
  for (std::size_t i = 0; i < log.warnings.size(); ++i) {
    EXPECT_THAT(log.warnings[i], HasSubstr(GetParam().warningParts[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Logs, BuildLogCase,
    testing::Values(LogCase{"spills",
                            kSpills,
                            {kernel("stacky", 62, 0, 256, 0), kernel("spills", 64, 2772, 696, 0),
                             kernel("saxpy", 8, 0, 0, 128)},
                            {"#177-D", ".minnctapersm will be ignored", "Registers are spilled"}},
                    LogCase{"serialized", kSerialized, {kernel("wg", 30, 0, 0, 0)}, {"C7519", "C7517", "C7511"}},
                    LogCase{"callee", kCallee, {kernel("_Z1tILi3EEvPf", 8, 0, 0, 0), kernel("k2", 30, 52, 256, 0)}, {}},
                    LogCase{"ignored_setmaxnreg", kIgnoredSetmaxnreg, {kernel("setbad", 8, 0, 0, 0)}, {"C7508"}},
                    LogCase{"empty", "", {}, {}},
                    LogCase{"cut_off_in_a_line", "ptxas info    : Compiling entry function 'wg", {}, {}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BuildLog, makesSerializedWgmmaVisible) {
  Binary binary;
  binary.warnings = parseBuildLog(kSerialized).warnings;
  EXPECT_TRUE(binary.wgmmaSerialized());
  binary.warnings = parseBuildLog(kSpills).warnings;
  EXPECT_FALSE(binary.wgmmaSerialized());
}

}  // namespace
}  // namespace tilewright
