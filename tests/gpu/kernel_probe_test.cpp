// The probe's command line and its folder of builds. What needs a GPU is what the probe itself is for.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "tests/gpu/cubin_cache.h"
#include "tests/gpu/probe_options.h"

namespace tilewright::probe {
namespace {

using testing::HasSubstr;

Result<Options> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "kernel_probe");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parseOptions(static_cast<int>(pointers.size()), pointers.data());
}

TEST(ProbeOptions, namesWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no jobs"},
      {{"linear.nothing", "-p", "op=linear,n=8,k=8,m=8"}, "no template 'linear.nothing'"},
      {{"--target", "sm_x"}, "sm_x"},
      {{"--jobs", "/nowhere/jobs"}, "/nowhere/jobs"},
      {{"--no-such-flag"}, "no-such-flag"},
  };
  for (const auto& [words, message] : cases) {
    const auto options = parse(words);
    ASSERT_FALSE(options) << message;
    EXPECT_THAT(options.error().message, HasSubstr(message));
  }
}

TEST(ProbeOptions, expandsEachTemplateOfThisBuild) {
  int expanded = 0;
  const DeviceInfo device = nominalDevice("sm_90a").value();
  const std::vector<std::pair<std::string, Operation>> problems = {
      {"op=q4k_linear,n=512,k=512,m=64,precision=fast", Operation::kQ4kLinear},
      {"op=linear,n=512,k=512,m=64", Operation::kLinear},
      {"op=attention,q_heads=8,kv_heads=2,head_dim=128,q_len=256,kv_len=256,causal=true", Operation::kAttention}};
  for (const Template* each : allTemplates()) {
    for (const auto& [text, operation] : problems) {
      if (each->operation() != operation) continue;
      const auto options = parse({std::string(each->id()), "-p", text, "-c", "default", "-c", "default"});
      if (!options) {
        EXPECT_EQ(options.error().code, ErrorCode::kUnsupported) << options.error().message;
        continue;
      }
      ++expanded;
      ASSERT_EQ(options->jobs.size(), 2u);
      EXPECT_EQ(options->jobs[0].configuration, each->defaultConfiguration(options->jobs[0].problem, device));
      const auto wrong = parse({std::string(each->id()), "-p", text, "-c", "no_such_parameter=1"});
      ASSERT_FALSE(wrong);
      EXPECT_THAT(wrong.error().message, HasSubstr("no parameter 'no_such_parameter'"));
    }
  }
  EXPECT_GT(expanded, 0);
}

TEST(ProbeOptions, readsAlignmentInBothForms) {
  for (const auto& [text, alignment] : {std::pair{"any", Alignment::kAny}, {"16", Alignment::k16}}) {
    const auto options = parse({"linear.plain_cuda", "-p", fmt::format("op=linear,n=257,k=8,m=8,alignment={}", text)});
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->jobs[0].problem.alignment, alignment);
  }
}

TEST(ProbeOptions, readsOperandSettings) {
  Problem problem;
  reference::OperandOptions options;
  ASSERT_TRUE(applyOperandSettings("seed=3,activations=outliers,x_padding=8,kv_lens=5:0:17,weight_scale=0.5", problem,
                                   options));
  EXPECT_EQ(options.seed, 3u);
  EXPECT_EQ(options.activations, reference::Activations::kOutliers);
  EXPECT_EQ(options.xPadding, 8);
  EXPECT_THAT(options.kvLens, testing::ElementsAre(5, 0, 17));
  EXPECT_EQ(options.weightScale, 0.5);
  EXPECT_THAT(applyOperandSettings("speed=3", problem, options).error().message,
              HasSubstr("unknown operand setting 'speed'"));
  EXPECT_THAT(applyOperandSettings("seed=x", problem, options).error().message, HasSubstr("seed=x"));
  EXPECT_THAT(applyOperandSettings("weights=none", problem, options).error().message, HasSubstr("must be gaussian"));
}

class CubinCacheTest : public testing::Test {
 protected:
  CubinCacheTest()
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("cubin_cache_test_{}", testing::UnitTest::GetInstance()->random_seed() + getpid())) {}
  ~CubinCacheTest() override { std::filesystem::remove_all(directory_); }

  static Binary build(const BuildRequest& request, std::string compiler) {
    Binary binary{.buildKey = buildKey(request, compiler), .target = "sm_90a", .compiler = std::move(compiler)};
    binary.bytes = {std::byte{1}, std::byte{0}, std::byte{200}};
    binary.hash = sha256Hex(binary.bytes);
    binary.kernels = {{.entry = "k", .registers = 168, .spillBytes = 8, .stackBytes = 16, .sharedBytes = 32}};
    binary.warnings = {"ptxas info : \"C7511\""};
    return binary;
  }

  std::filesystem::path directory_;
};

TEST_F(CubinCacheTest, findsWhatAnotherProcessStored) {
  const BuildRequest request{.templateId = "t", .source = "s", .target = "sm_90a"};
  const Binary stored = build(request, "nvrtc 1");
  ASSERT_TRUE(CubinCache::open(directory_).value().store(stored));
  const auto found = CubinCache::open(directory_).value().find(request);
  ASSERT_TRUE(found && *found);
  const Binary& binary = **found;
  EXPECT_EQ(binary.hash, stored.hash);
  EXPECT_EQ(binary.buildKey, stored.buildKey);
  EXPECT_EQ(binary.bytes, stored.bytes);
  EXPECT_EQ(binary.warnings, stored.warnings);
  EXPECT_EQ(binary.compiler, "nvrtc 1");
  ASSERT_EQ(binary.kernels.size(), 1u);
  EXPECT_EQ(binary.kernels[0].registers, 168);
  EXPECT_EQ(binary.spillBytes(), 8);
}

TEST_F(CubinCacheTest, findsNothingForAnotherRequest) {
  BuildRequest request{.templateId = "t", .source = "s", .target = "sm_90a"};
  CubinCache cache = CubinCache::open(directory_).value();
  ASSERT_TRUE(cache.store(build(request, "nvrtc 1")));
  request.source = "other";
  EXPECT_FALSE(cache.find(request).value().has_value());
}

TEST_F(CubinCacheTest, noticesDamage) {
  const BuildRequest request{.templateId = "t", .source = "s", .target = "sm_90a"};
  CubinCache cache = CubinCache::open(directory_).value();
  ASSERT_TRUE(cache.store(build(request, "nvrtc 1")));
  std::ofstream(directory_ / (buildKey(request, "nvrtc 1") + ".cubin")) << "xyz";
  const auto found = cache.find(request);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace tilewright::probe
