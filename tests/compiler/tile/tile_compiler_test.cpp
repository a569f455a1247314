// The tile compiler as a Compiler: determinism, stages, and errors that name what was wrong.
#include "compiler/tile/tile_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

BuildRequest linearRequest() {
  return {.kind = SourceKind::kTile,
          .templateId = "linear.portable",
          .source = "linear.portable",
          .parameters = {{"tile_m", "16"},
                         {"tile_n", "32"},
                         {"tile_k", "64"},
                         {"micro_rows", "8"},
                         {"micro_vectors", "2"},
                         {"unroll", "1"},
                         {"bias", "0"}},
          .target = "x86-64-v3",
          .entries = {"linearPortable"}};
}

class TileCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto compiler = createTileCompiler();
    if (!compiler) GTEST_SKIP() << compiler.error().message;
    compiler_ = std::move(*compiler);
  }

  Error errorOf(const BuildRequest& request) {
    auto binary = compiler_->build(request);
    EXPECT_FALSE(binary);
    return binary ? Error{ErrorCode::kInternal, "built"} : binary.error();
  }

  std::unique_ptr<Compiler> compiler_;
};

TEST_F(TileCompilerTest, namesItselfAndItsTargets) {
  EXPECT_THAT(compiler_->identity(), testing::MatchesRegex("tile 22\\..* [0-9a-f]{16}"));
  for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    EXPECT_TRUE(compiler_->handles(SourceKind::kTile, target)) << target;
  }
  EXPECT_FALSE(compiler_->handles(SourceKind::kTile, "x86-64-v2"));
  EXPECT_FALSE(compiler_->handles(SourceKind::kTile, "sm_90a"));
  EXPECT_FALSE(compiler_->handles(SourceKind::kCuda, "x86-64"));
}

TEST_F(TileCompilerTest, buildsTheSameBytesEveryTime) {
  const auto first = compiler_->build(linearRequest()), second = compiler_->build(linearRequest());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(first->hash, sha256Hex(first->bytes));
  EXPECT_EQ(first->hash, second->hash);
  EXPECT_EQ(first->buildKey, buildKey(linearRequest(), compiler_->identity()));
  ASSERT_EQ(first->kernels.size(), 1u);
  EXPECT_EQ(first->kernels[0].entry, "linearPortable");
}

TEST_F(TileCompilerTest, printsEveryStage) {
  const auto tile = emitTileStage(linearRequest(), TileStage::kTile);
  ASSERT_TRUE(tile) << tile.error().message;
  EXPECT_THAT(*tile, HasSubstr("tile.dot"));
  const auto llvm = emitTileStage(linearRequest(), TileStage::kLlvm);
  ASSERT_TRUE(llvm) << llvm.error().message;
  EXPECT_THAT(*llvm, HasSubstr("define void @linearPortable(ptr"));
  // AVX2 and FMA, no wider registers, and no call but those of memory functions.
  const auto assembly = emitTileStage(linearRequest(), TileStage::kAssembly);
  ASSERT_TRUE(assembly) << assembly.error().message;
  EXPECT_THAT(*assembly, HasSubstr("vfmadd"));
  EXPECT_THAT(*assembly, HasSubstr("%ymm"));
  EXPECT_THAT(*assembly, Not(HasSubstr("%zmm")));
  EXPECT_THAT(*assembly, Not(HasSubstr("truncsfbf2")));
}

TEST_F(TileCompilerTest, errorsNameWhatIsWrong) {
  BuildRequest unknown = linearRequest();
  unknown.source = "linear.other";
  EXPECT_EQ(errorOf(unknown).code, ErrorCode::kVersion);
  EXPECT_THAT(errorOf(unknown).message, HasSubstr("'linear.other'"));

  BuildRequest missing = linearRequest();
  missing.parameters.erase(missing.parameters.begin());
  EXPECT_EQ(errorOf(missing).code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(errorOf(missing).message, HasSubstr("parameter tile_m is missing"));

  BuildRequest huge = linearRequest();
  huge.parameters[1].second = "1000000";
  EXPECT_EQ(errorOf(huge).code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(errorOf(huge).message, HasSubstr("parameter tile_n is 1000000, must be from 1 to 1024"));

  BuildRequest gpu = linearRequest();
  gpu.target = "sm_90a";
  EXPECT_EQ(errorOf(gpu).code, ErrorCode::kUnsupported);
  EXPECT_THAT(errorOf(gpu).message, HasSubstr("'sm_90a'"));

  BuildRequest deep = linearRequest();
  deep.parameters[0].second = "1024", deep.parameters[1].second = "1024";
  EXPECT_EQ(errorOf(deep).code, ErrorCode::kCompile);
  EXPECT_THAT(errorOf(deep).log, HasSubstr("bytes of stack"));
}

TEST_F(TileCompilerTest, loaderRefusesDamageAndUnknownEntries) {
  auto binary = compiler_->build(linearRequest());
  ASSERT_TRUE(binary) << binary.error().message;
  const auto loader = createHostLoader();
  ASSERT_TRUE(loader);
  auto code = (*loader)->load(*binary);
  if (!code && code.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << code.error().message;
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_TRUE((*code)->find("linearPortable"));
  EXPECT_EQ((*code)->find("other").error().code, ErrorCode::kNotFound);

  binary->bytes[binary->bytes.size() / 2] ^= std::byte{1};
  EXPECT_EQ((*loader)->load(*binary).error().code, ErrorCode::kCorrupt);
  binary->bytes.assign(64, std::byte{0x5a});
  binary->hash = sha256Hex(binary->bytes);
  EXPECT_EQ((*loader)->load(*binary).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ((*loader)->load(Binary{.hash = sha256Hex(""), .target = "sm_90a"}).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tilewright
