// From model files to problems: the shipped models, every kind of input, what is not covered, and bad input.
#include "tools/model_shapes/model_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/tools/gguf_writer.h"
#include "tests/tools/shape_texts.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing_gguf::GgufWriter;
using testing_gguf::smallLlama;

class ModelShapesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("model_shapes_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    const auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

  Result<ModelShapes> read(std::vector<std::string> inputs, const ShapeOptions& options = oneOfEach(),
                           const std::string& standardInput = "") {
    std::istringstream stream(standardInput);
    return readModelShapes(inputs, options, stream);
  }

  // Ladders of one size, so that every layer shows up once.
  static ShapeOptions oneOfEach() { return {.rows = {16}, .queries = {1}, .keys = {4096}}; }

  std::filesystem::path folder_;
};

std::string shipped(std::string_view name) {
  return fmt::format("{}/tools/models/{}.json", TILEWRIGHT_SOURCE_DIR, name);
}

TEST_F(ModelShapesTest, llamaHasSeparateAndFusedLinears) {
  const auto shapes = read({shipped("llama-3.1-8b")});
  ASSERT_TRUE(shapes) << shapes.error().message;
  // 32 heads of 128 and 8 key-value heads; q and the attention's output have the same shape.
  EXPECT_THAT(textOf(*shapes),
              testing::ElementsAre("q+attention_output 64 q4k_linear 4096x4096", "k+v 64 q4k_linear 1024x4096",
                                   "qkv 32 q4k_linear 6144x4096", "gate+up 64 q4k_linear 14336x4096",
                                   "gate_up 32 q4k_linear 28672x4096", "down 32 q4k_linear 4096x14336",
                                   "output 1 q4k_linear 128256x4096", "attention 32 32/8 d128 causal"));
  EXPECT_TRUE(shapes->notCovered.empty());
}

TEST_F(ModelShapesTest, everyShippedModelIsRead) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TILEWRIGHT_SOURCE_DIR "/tools/models")) {
    const auto shapes = read({entry.path().string()}, {});
    ASSERT_TRUE(shapes) << shapes.error().message;
    int linears = 0, attentions = 0;
    for (const ListedProblem& listed : shapes->problems) {
      EXPECT_TRUE(validate(listed.problem));
      ++(listed.problem.isLinear() ? linears : attentions);
    }
    EXPECT_GT(linears, 60) << entry.path();
    EXPECT_GT(attentions, 10) << entry.path();
    ++models;
  }
  EXPECT_EQ(models, 8);
}

TEST_F(ModelShapesTest, slidingWindowLayersAreCounted) {
  const auto shapes = read({shipped("gemma-3-4b")});
  ASSERT_TRUE(shapes) << shapes.error().message;
  // 34 layers, of which every sixth sees everything: 5.
  EXPECT_THAT(textOf(*shapes), testing::Contains("attention 5 8/4 d256 causal"));
  EXPECT_THAT(textOf(*shapes), testing::Contains("qkv 34 q4k_linear 4096x2560"));
  EXPECT_EQ(shapes->notCovered, (NotCovered{{"attention layers with a sliding window", 29}}));
}

TEST_F(ModelShapesTest, laddersMultiply) {
  const auto shapes = read({shipped("llama-3.1-8b")}, {.rows = {1, 7},
                                                       .queries = {1, 512, 5000},
                                                       .keys = {512, 4096},
                                                       .batches = {1, 4},
                                                       .precisions = {Precision::kExact, Precision::kFp8}});
  ASSERT_TRUE(shapes) << shapes.error().message;
  std::set<std::array<std::int64_t, 3>> attention;
  int linears = 0;
  for (const ListedProblem& listed : shapes->problems) {
    const AttentionShape& shape = listed.problem.attention;
    if (listed.problem.isLinear()) {
      ++linears;
    } else {
      attention.insert({shape.batch, shape.qLen, shape.kvLen});
    }
  }
  EXPECT_EQ(linears, 7 * 2 * 2);
  // Queries are never more than keys.
  EXPECT_EQ(attention, (std::set<std::array<std::int64_t, 3>>{{1, 1, 512},
                                                              {1, 1, 4096},
                                                              {1, 512, 512},
                                                              {1, 512, 4096},
                                                              {4, 1, 512},
                                                              {4, 1, 4096},
                                                              {4, 512, 512},
                                                              {4, 512, 4096}}));
}

TEST_F(ModelShapesTest, preparedWeightsAreForEveryQ4kLinearAlone) {
  GgufWriter writer;
  writer.text("general.architecture", "qwen2").u32("qwen2.attention.head_count", 2).u32("qwen2.embedding_length", 256);
  writer.q4k("token_embd.weight", 1000, 256).q4k("blk.0.attn_q.weight", 256, 256);
  writer.bf16("blk.0.attn_k.weight", 256, 256);
  ShapeOptions options = oneOfEach();
  options.prepared = true;
  const auto shapes = read({write("model.gguf", writer.header())}, options);
  ASSERT_TRUE(shapes) << shapes.error().message;
  EXPECT_THAT(textOf(*shapes), testing::IsSupersetOf({"q 1 q4k_linear 256x256 prepared", "k 1 linear 256x256",
                                                      "output 1 q4k_linear 1000x256 prepared"}));
}

TEST_F(ModelShapesTest, defaultLaddersEndAtTheContextAndAtSampledRows) {
  const auto shapes = read({shipped("qwen3-0.6b")}, {});
  ASSERT_TRUE(shapes);
  std::int64_t longest = 0, outputRows = 0, rows = 0;
  for (const ListedProblem& listed : shapes->problems) {
    if (!listed.problem.isLinear()) longest = std::max(longest, listed.problem.attention.kvLen);
    if (listed.use == "output") outputRows = std::max(outputRows, listed.problem.linear.m);
    if (listed.use == "down") rows = std::max(rows, listed.problem.linear.m);
  }
  EXPECT_EQ(longest, 40960);
  EXPECT_EQ(outputRows, kDefaultOutputRows);
  EXPECT_EQ(rows, 4096);
  const auto explicitRows = read({shipped("qwen3-0.6b")}, {.rows = {2048}});
  ASSERT_TRUE(explicitRows);
  EXPECT_TRUE(std::ranges::any_of(
      explicitRows->problems, [](const ListedProblem& l) { return l.use == "output" && l.problem.linear.m == 2048; }));
}

TEST_F(ModelShapesTest, tensorParallelismDividesTheModel) {
  ShapeOptions options = oneOfEach();
  options.tensorParallel = 8;
  const auto shapes = read({shipped("llama-3.1-70b")}, options);
  ASSERT_TRUE(shapes) << shapes.error().message;
  EXPECT_THAT(
      textOf(*shapes),
      testing::ElementsAre("q 80 q4k_linear 1024x8192", "k+v 160 q4k_linear 128x8192", "qkv 80 q4k_linear 1280x8192",
                           "attention_output 80 q4k_linear 8192x1024", "gate+up 160 q4k_linear 3584x8192",
                           "gate_up 80 q4k_linear 7168x8192", "down 80 q4k_linear 8192x3584",
                           "output 1 q4k_linear 16032x8192", "attention 80 8/1 d128 causal"));
  // More devices than key-value heads: each keeps one whole head.
  options.tensorParallel = 16;
  const auto more = read({shipped("llama-3.1-70b")}, options);
  ASSERT_TRUE(more);
  EXPECT_THAT(textOf(*more), testing::IsSupersetOf({"k+v 160 q4k_linear 128x8192", "qkv 80 q4k_linear 768x8192",
                                                    "attention 80 4/1 d128 causal"}));
  // 28672 / 16 = 1792 = 7 * 256 columns remain whole super-blocks; 28672 / 32 = 896 do not.
  options.tensorParallel = 32;
  const auto many = read({shipped("llama-3.1-70b")}, options);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->notCovered, (NotCovered{{"linears with k = 896, not a multiple of 256", 80}}));
  options.tensorParallel = 3;
  const auto odd = read({shipped("llama-3.1-70b")}, options);
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->notCovered.at("attention layers with 64 query and 8 key-value heads on 3 devices"), 80);
  EXPECT_EQ(odd->notCovered.at("linears that 3 devices do not divide"), 80 * 9);
}

TEST_F(ModelShapesTest, ggufTakesEveryTensorsOwnTypeAndShape) {
  const auto shapes = read({write("model.gguf", smallLlama().header())});
  ASSERT_TRUE(shapes) << shapes.error().message;
  EXPECT_THAT(textOf(*shapes),
              testing::UnorderedElementsAre("q+attention_output 4 q4k_linear 512x512", "k+v 3 q4k_linear 128x512",
                                            "qkv 1 q4k_linear 768x512", "gate+up 4 q4k_linear 1024x512",
                                            "gate_up 2 q4k_linear 2048x512", "down 1 q4k_linear 512x1024",
                                            "attention 2 8/2 d64 causal"));
  EXPECT_EQ(shapes->notCovered, (NotCovered{{"Q6_K weights", 3}}));
}

TEST_F(ModelShapesTest, ggufWithoutAnOutputHeadTiesIt) {
  GgufWriter writer;
  writer.text("general.architecture", "qwen2").u32("qwen2.attention.head_count", 2).u32("qwen2.embedding_length", 256);
  writer.q4k("token_embd.weight", 1000, 256).q4k("blk.0.attn_q.weight", 256, 256).f32Vector("blk.0.attn_q.bias", 256);
  writer.bf16("blk.0.attn_k.weight", 256, 256).q4k("blk.0.attn_v.weight", 256, 256);
  const auto shapes = read({write("model.gguf", writer.header())});
  ASSERT_TRUE(shapes) << shapes.error().message;
  // BF16 weights are the operation `linear`; parts of several types do not fuse.
  EXPECT_THAT(textOf(*shapes), testing::UnorderedElementsAre("q 1 q4k_linear 256x256 bias", "k 1 linear 256x256",
                                                             "v 1 q4k_linear 256x256", "output 1 q4k_linear 1000x256",
                                                             "attention 1 2/2 d128 causal"));
}

TEST_F(ModelShapesTest, ggufKindsThatAreNotCoveredAreCounted) {
  GgufWriter writer;
  writer.text("general.architecture", "gemma3")
      .u32("gemma3.attention.head_count", 4)
      .u32s("gemma3.attention.head_count_kv", {4, 2, 2})
      .u32("gemma3.attention.key_length", 64)
      .u32("gemma3.attention.value_length", 64)
      .u32("gemma3.attention.sliding_window", 512)
      .flags("gemma3.attention.sliding_window_pattern", {true, false, false});
  for (int layer = 0; layer < 3; ++layer) writer.q4k(fmt::format("blk.{}.attn_q.weight", layer), 256, 256);
  writer.q4k("blk.3.attn_kv_a_mqa.weight", 64, 256);
  writer.tensor("blk.3.ffn_gate_exps.weight", {256, 512, 8}, 12, 256 * 512 * 8 / 256 * 144);
  writer.tensor("blk.3.ffn_gate_inp.weight", {256, 8}, 0, 256 * 8 * 4);
  const auto shapes = read({write("model.gguf", writer.header())});
  ASSERT_TRUE(shapes) << shapes.error().message;
  EXPECT_THAT(textOf(*shapes), testing::Contains("attention 2 4/2 d64 causal"));
  EXPECT_EQ(shapes->notCovered, (NotCovered{{"attention layers with a sliding window", 1},
                                            {"latent attention layers (MLA)", 1},
                                            {"expert weights (Q4_K)", 1},
                                            {"F32 weights", 1}}));
}

GgufWriter part(int number, int count, int tensors) {
  GgufWriter writer;
  writer.u16("split.no", static_cast<std::uint16_t>(number)).u16("split.count", static_cast<std::uint16_t>(count));
  writer.i32("split.tensors.count", tensors);
  if (number == 0) writer.text("general.architecture", "llama");
  return writer;
}

TEST_F(ModelShapesTest, splitGgufFilesAreReadWhole) {
  const auto first = write("m-00001-of-00002.gguf", part(0, 2, 2).q4k("blk.0.ffn_up.weight", 512, 256).header());
  const auto second = write("m-00002-of-00002.gguf", part(1, 2, 2).q4k("blk.0.ffn_down.weight", 256, 512).header());
  for (const auto& inputs : {std::vector{first}, std::vector{second}, std::vector{second, first}}) {
    const auto shapes = read(inputs);
    ASSERT_TRUE(shapes) << shapes.error().message;
    EXPECT_THAT(textOf(*shapes), testing::UnorderedElementsAre("up 1 q4k_linear 512x256", "down 1 q4k_linear 256x512"));
  }
}

TEST_F(ModelShapesTest, splitGgufFilesWithFaultsAreRefused) {
  const auto good = part(0, 2, 2).q4k("blk.0.ffn_up.weight", 512, 256).header();
  const auto other = part(1, 2, 2).q4k("blk.0.ffn_down.weight", 256, 512).header();
  const auto expectError = [&](const std::string& input, ErrorCode code, const std::string& message) {
    const auto shapes = read({input});
    ASSERT_FALSE(shapes);
    EXPECT_EQ(shapes.error().code, code);
    EXPECT_THAT(shapes.error().message, HasSubstr(message));
  };
  expectError(write("missing/m-00001-of-00002.gguf", good), ErrorCode::kNotFound,
              "m-00002-of-00002.gguf: no such file");
  expectError(write("renamed/m.gguf", good), ErrorCode::kCorrupt, "its name must end in -NNNNN-of-00002.gguf");
  write("swapped/m-00001-of-00002.gguf", other);
  expectError(write("swapped/m-00002-of-00002.gguf", good), ErrorCode::kCorrupt, "calls itself part 2 of 2");
  write("twice/m-00001-of-00002.gguf", good);
  expectError(write("twice/m-00002-of-00002.gguf", part(1, 2, 2).q4k("blk.0.ffn_up.weight", 512, 256).header()),
              ErrorCode::kCorrupt, "two parts of the split GGUF file have the tensor 'blk.0.ffn_up.weight'");
  write("fewer/m-00001-of-00002.gguf", part(0, 2, 3).q4k("blk.0.ffn_up.weight", 512, 256).header());
  expectError(write("fewer/m-00002-of-00002.gguf", other), ErrorCode::kCorrupt,
              "have 2 tensors, split.tensors.count is 3");
}

TEST_F(ModelShapesTest, listsInJsonAndCsvAreTakenAsTheyAre) {
  const std::string json =
      R"([{"op": "q4k_linear", "n": 8, "k": 256, "m": 3, "precision": "fp8", "prepared": true, "count": 2.5,
     "use": "x"}, {"op": "attention", "q_heads": 4, "kv_heads": 2, "head_dim": 64, "q_len": 1, "kv_len": 9, "causal": true}])";
  const std::string csv =
      "# two problems\n"
      "op, n, k, m, precision, prepared, q_heads, kv_heads, head_dim, q_len, kv_len, causal, count, use\r\n"
      "q4k_linear,8,256,3,fp8,1,,,,,,,2.5,\"x\"\r\n"
      "\n"
      "attention,,,,,,4,2,64,1,9,true,,\n";
  const auto fromJson = read({write("list.json", json)});
  const auto fromCsv = read({write("list.csv", csv)});
  const auto fromSpreadsheet = read({write("spreadsheet.csv", "\xef\xbb\xbf" + std::string(csv))});
  ASSERT_TRUE(fromSpreadsheet) << fromSpreadsheet.error().message;
  EXPECT_EQ(fromSpreadsheet->problems, fromCsv->problems);
  ASSERT_TRUE(fromJson) << fromJson.error().message;
  ASSERT_TRUE(fromCsv) << fromCsv.error().message;
  ASSERT_EQ(fromJson->problems.size(), 2u);
  EXPECT_EQ(fromJson->problems, fromCsv->problems);
  EXPECT_EQ(fromJson->problems[0].count, 2.5);
  EXPECT_TRUE(fromJson->problems[0].problem.linear.prepared);
  EXPECT_EQ(fromJson->problems[0].use, "x");
}

TEST_F(ModelShapesTest, everyKindOfInputComesThroughStandardInput) {
  const std::string problem = R"({"op": "linear", "n": 8, "k": 8, "m": 1})";
  std::ifstream config(shipped("llama-3.2-1b"));
  std::stringstream configText;
  configText << config.rdbuf();
  for (const std::string& input : {problem, "[" + problem + "]", R"({"version": 1, "problems": [)" + problem + "]}",
                                   std::string("op,n,k,m\nlinear,8,8,1\n"), configText.str(), smallLlama().header()}) {
    const auto shapes = read({"-"}, oneOfEach(), input);
    ASSERT_TRUE(shapes) << shapes.error().message;
    EXPECT_FALSE(shapes->problems.empty());
  }
  const auto twice = read({"-", "-"}, oneOfEach(), problem);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("standard input ('-') was given twice"));
  const auto split = read({"-"}, oneOfEach(), part(0, 2, 1).header());
  ASSERT_FALSE(split);
  EXPECT_THAT(split.error().message, HasSubstr("a split GGUF file has to be given by its name"));
}

TEST_F(ModelShapesTest, severalInputsBecomeOneListWithoutDuplicates) {
  const std::string problem = R"({"op": "linear", "n": 8, "k": 8, "m": 1, "count": 3, "use": "a"})";
  const auto first = write("a.json", "[" + problem + "]");
  const auto second = write("b.csv", "op,n,k,m,count,use\nlinear,8,8,1,4,b\nlinear,8,8,2,1,b\n");
  const auto shapes = read({first, second, first});
  ASSERT_TRUE(shapes) << shapes.error().message;
  ASSERT_EQ(shapes->problems.size(), 2u);
  EXPECT_EQ(shapes->problems[0].count, 7);
  EXPECT_EQ(shapes->problems[0].use, "a+b");
  // A directory is its config.json, so this is one model.
  std::filesystem::copy_file(shipped("llama-3.2-1b"), write("model/config.json", ""),
                             std::filesystem::copy_options::overwrite_existing);
  const auto once = read({(folder_ / "model").string()});
  const auto alsoOnce = read({(folder_ / "model").string(), (folder_ / "model" / "config.json").string()});
  ASSERT_TRUE(once && alsoOnce);
  EXPECT_EQ(once->problems, alsoOnce->problems);
}

TEST_F(ModelShapesTest, badInputIsNamedWithItsRule) {
  struct Case {
    std::string name, content;
    ErrorCode code;
    std::string_view message;
  };
  for (const auto& [name, content, code, message] : std::initializer_list<Case>{
           {"empty.json", "", ErrorCode::kInvalidArgument, "the input is empty"},
           {"blank.json", " \n", ErrorCode::kInvalidArgument, "the input is empty"},
           {"unknown.bin", std::string("\x7f\0\0\0", 4), ErrorCode::kInvalidArgument,
            "neither a GGUF file nor JSON nor a CSV"},
           {"cut.gguf", smallLlama().header().substr(0, 100), ErrorCode::kCorrupt, "cut.gguf: GGUF header"},
           {"no_architecture.gguf", GgufWriter().u32("a", 1).header(), ErrorCode::kCorrupt, "no general.architecture"},
           {"headless.gguf",
            GgufWriter().text("general.architecture", "llama").q4k("blk.0.attn_q.weight", 256, 256).header(),
            ErrorCode::kCorrupt, "attention in block 0, but llama.attention.head_count is 0"},
           {"object.json", R"({"a": 1})", ErrorCode::kInvalidArgument, "neither a model (model_type, hidden_size) nor"},
           {"cut.json", R"([{"op": )", ErrorCode::kInvalidArgument, "line 1, column 9, at [0].op"},
           {"type.json", R"([{"op": "linear", "n": "8", "k": 8, "m": 1}])", ErrorCode::kInvalidArgument,
            "at [0].n: expected an integer, found a string"},
           {"k.json", R"([{"op": "q4k_linear", "n": 8, "k": 100, "m": 1}])", ErrorCode::kInvalidArgument,
            "k is 100, must be a multiple of 256"},
           {"window.json", R"([{"op": "attention", "window": 3}])", ErrorCode::kUnsupported,
            "sliding windows are not supported"},
           {"version.json", R"({"version": 9, "problems": []})", ErrorCode::kVersion,
            "version is 9, this program reads 1"},
           {"column.csv", "op,n,k,q\nlinear,1,1,1\n", ErrorCode::kInvalidArgument,
            "line 1, column 8: unknown column 'q'"},
           {"twice.csv", "op,n,n\n", ErrorCode::kInvalidArgument, "column 'n' appears twice"},
           {"cells.csv", "op,n,k,m\nlinear,1,1\n", ErrorCode::kInvalidArgument,
            "line 2, column 1: 3 cells, the header has 4"},
           {"number.csv", "op,n,k,m\nlinear,1,1x,1\n", ErrorCode::kInvalidArgument,
            "line 2, column 10: k is '1x', must be a 64-bit"},
           {"range.csv", "op,n,k,m\nlinear,1,99999999999999999999,1\n", ErrorCode::kInvalidArgument,
            "must be a 64-bit integer"},
           {"flag.csv", "op,n,k,m,bias\nlinear,1,1,1,yes\n", ErrorCode::kInvalidArgument,
            "bias is 'yes', must be true, false, 1 or 0"},
           {"prepared.csv", "op,n,k,m,prepared\nlinear,1,1,1,1\n", ErrorCode::kInvalidArgument,
            "prepared is true, must be false: only q4k_linear"},
           {"negative.csv", "op,n,k,m\nlinear,1,1,-1\n", ErrorCode::kInvalidArgument, "m is -1, must be from 0"},
           {"count.csv", "op,n,k,m,count\nlinear,1,1,1,-2\n", ErrorCode::kInvalidArgument,
            "count is -2, must be above 0"},
           {"count.json", R"([{"op": "linear", "n": 1, "k": 1, "m": 1, "count": 1e16}])", ErrorCode::kInvalidArgument,
            "count is 1e+16, must be above 0 and at most 1000000000000000"},
           {"heads.gguf",
            GgufWriter().text("general.architecture", "llama").text("llama.attention.head_count", "8").header(),
            ErrorCode::kCorrupt, "llama.attention.head_count is the string '8', must be an integer"},
           {"width.gguf",
            GgufWriter().text("general.architecture", "llama").f32("llama.embedding_length", 0.5f).header(),
            ErrorCode::kCorrupt, "llama.embedding_length is the real 0.5, must be an integer"},
           {"architecture.gguf", GgufWriter().u32("general.architecture", 1).header(), ErrorCode::kCorrupt,
            "general.architecture is no string"},
           {"comment.csv", "# nothing\n", ErrorCode::kInvalidArgument, "no header line"},
       }) {
    const auto shapes = read({write(name, content)});
    ASSERT_FALSE(shapes) << name;
    EXPECT_EQ(shapes.error().code, code) << name << ": " << shapes.error().message;
    EXPECT_THAT(shapes.error().message, testing::AllOf(HasSubstr(name), HasSubstr(std::string(message))));
  }
  // The name of the input also stands before a message that happens to contain it.
  std::istringstream negative(R"({"op": "linear", "n": -64, "k": 1, "m": 1})");
  const auto fromInput = readModelShapes(std::vector<std::string>{"-"}, {}, negative);
  ASSERT_FALSE(fromInput);
  EXPECT_THAT(fromInput.error().message, testing::StartsWith("cannot read standard input: line 1"));
  const auto missing = read({(folder_ / "none.json").string()});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto noConfig = read({folder_.string()});
  ASSERT_FALSE(noConfig);
  EXPECT_THAT(noConfig.error().message, HasSubstr("config.json: no such file"));
  EXPECT_FALSE(read({}));
}

TEST_F(ModelShapesTest, laddersThatMultiplyWithoutEndAreRefused) {
  std::vector<std::int64_t> sizes(1000);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = static_cast<std::int64_t>(i);
  const auto shapes = read({shipped("llama-3.1-8b")}, {.queries = sizes, .keys = sizes});
  ASSERT_FALSE(shapes);
  EXPECT_THAT(shapes.error().message, HasSubstr("amount to more than 100000 problems"));
}

}  // namespace
}  // namespace tilewright
