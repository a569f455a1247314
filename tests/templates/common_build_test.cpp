// The instruction wrappers of templates/common compile, and the wgmma overloads assemble to the instructions they name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/nvrtc/nvrtc_compiler.h"
#include "templates/common/wgmma_overloads.h"
#include "templates/sources.h"

namespace tilewright {
namespace {

using Type = WgmmaShape::Type;

BuildRequest request(const std::string& overloads, const std::string& body) {
  const SourceCatalog sources;
  BuildRequest request;
  request.templateId = "common";
  request.target = "sm_90a";
  request.entries = {"probe"};
  request.source = overloads +
                   "#include \"templates/common/mbarrier.cuh\"\n#include \"templates/common/numeric.cuh\"\n"
                   "#include \"templates/common/shared_memory.cuh\"\n#include \"templates/common/tma.cuh\"\n"
                   "#include \"templates/common/warp_control.cuh\"\nusing namespace tilewright;\n" +
                   body;
  for (const char* name : {"mbarrier", "numeric", "shared_memory", "tma", "types", "warp_control", "wgmma"}) {
    const std::string path = std::string("templates/common/") + name + ".cuh";
    request.includes.push_back({path, sources.text(path)});
  }
  return request;
}

class WgmmaOverloads : public testing::TestWithParam<WgmmaShape> {};

TEST_P(WgmmaOverloads, assembleWithoutSerialization) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const WgmmaShape shape = GetParam();
  const bool integer = shape.type == Type::kS8;
  const char* function = integer                     ? "wgmmaS8"
                         : shape.type == Type::kE4m3 ? "wgmmaE4m3"
                         : shape.type == Type::kBf16 ? "wgmmaBf16"
                                                     : "wgmmaBf16TransposedB";
  const std::string type = integer ? "int" : "float";
  const std::string source =
      "extern \"C\" __global__ void __launch_bounds__(128, 1) probe(" + type + "* out, const uint4* in, U64 b) {\n  " +
      type + " d[" + std::to_string(shape.n / 2) + "];\n" +
      (shape.aInRegisters ? "  const uint4 v = in[threadIdx.x];\n  U32 a[4] = {v.x, v.y, v.z, v.w};\n"
                          : "  U64 a = b + 64;\n") +
      "  wgmmaFence();\n  " + function + "(d, a, b, 0);\n  " + function +
      "(d, a, b + 2, 1);\n  wgmmaCommit();\n  wgmmaWait<0>();\n"
      "  for (int i = 0; i < " +
      std::to_string(shape.n / 2) + "; ++i) out[i * 128 + threadIdx.x] = d[i];\n}\n";
  const BuildRequest build = request(wgmmaOverloads(std::array{shape, shape}), source);

  const auto binary = (*compiler)->build(build);
  ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
  EXPECT_FALSE(binary->wgmmaSerialized()) << binary->log;
  EXPECT_EQ(binary->spillBytes(), 0);
  const auto ptx = (*compiler)->emitPtx(build);
  ASSERT_TRUE(ptx) << ptx.error().message;
  EXPECT_THAT(*ptx, testing::HasSubstr(".m64n" + std::to_string(shape.n) + "k" +
                                       (integer || shape.type == Type::kE4m3 ? "32" : "16")));
}

INSTANTIATE_TEST_SUITE_P(Shapes, WgmmaOverloads,
                         testing::Values(WgmmaShape{Type::kS8, 16, true}, WgmmaShape{Type::kS8, 192, true},
                                         WgmmaShape{Type::kE4m3, 256, true}, WgmmaShape{Type::kBf16, 8, true},
                                         WgmmaShape{Type::kBf16, 128, false}, WgmmaShape{Type::kBf16, 256, true},
                                         WgmmaShape{Type::kBf16TransposedB, 128, true},
                                         WgmmaShape{Type::kBf16TransposedB, 64, false}));

}  // namespace
}  // namespace tilewright
