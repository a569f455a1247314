// Features of other attention and matrix libraries that these operations do not have: a problem that asks for one is
// refused by the feature's name, never computed without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/problem_json.h"

namespace tilewright {
namespace {

struct Feature {
  std::string_view name;  ///< how the message must call it
  std::string_view text;  ///< what is added to a valid problem
};

constexpr std::string_view kAttention =
    R"({"op": "attention", "batch": 1, "q_heads": 4, "kv_heads": 2, "head_dim": 64, "q_len": 8, "kv_len": 16, "causal": true)";
constexpr std::string_view kLinear = R"({"op": "q4k_linear", "n": 64, "k": 256, "m": 8)";

void expectRefused(std::string_view base, const Feature& feature) {
  const std::string text = fmt::format("{}, {}}}", base, feature.text);
  const auto problem = parseProblem(text);
  ASSERT_FALSE(problem) << text;
  EXPECT_THAT(problem.error().message, testing::HasSubstr(std::string(feature.name))) << text;
}

TEST(RefusedFeatures, attentionNamesEach) {
  for (const Feature& feature : {
           Feature{"mask", R"("mask": "bool")"},
           Feature{"attn_mask", R"("attn_mask": true)"},
           Feature{"window", R"("window": 1024)"},
           Feature{"window_left", R"("window_left": 333)"},
           Feature{"sliding_window", R"("sliding_window": 4096)"},
           Feature{"softcap", R"("softcap": 30.0)"},
           Feature{"page_size", R"("page_size": 16)"},
           Feature{"block_table", R"("block_table": [0, 1])"},
           Feature{"alibi", R"("alibi": true)"},
           Feature{"dropout", R"("dropout": 0.1)"},
           Feature{"sink", R"("sink": 1)"},
           Feature{"cu_seqlens", R"("cu_seqlens": [0, 8])"},
       }) {
    expectRefused(kAttention, feature);
  }
}

TEST(RefusedFeatures, linearNamesEach) {
  for (const Feature& feature : {
           Feature{"activation", R"("activation": "silu")"},
           Feature{"group_size", R"("group_size": 64)"},
           Feature{"experts", R"("experts": 8)"},
           Feature{"transpose", R"("transpose": true)"},
           Feature{"causal", R"("causal": true)"},
       }) {
    expectRefused(kLinear, feature);
  }
}

TEST(RefusedFeatures, valuesOutsideTheOperationsAreRefused) {
  for (
      const auto& [text, part] : {
          std::pair{
              R"({"op": "attention", "dtype": "f16", "q_heads": 4, "kv_heads": 2, "head_dim": 64, "q_len": 8, "kv_len": 9})",
              "f16"},
          std::pair{R"({"op": "attention", "q_heads": 5, "kv_heads": 3, "head_dim": 64, "q_len": 8, "kv_len": 9})",
                    "q_heads is 5, must be a multiple of kv_heads, which is 3"},
          std::pair{R"({"op": "attention", "q_heads": 4, "kv_heads": 2, "head_dim": 127, "q_len": 8, "kv_len": 9})",
                    "head_dim is 127"},
          std::pair{R"({"op": "attention", "q_heads": 4, "kv_heads": 2, "head_dim": 512, "q_len": 8, "kv_len": 9})",
                    "head_dim is 512"},
          std::pair{R"({"op": "q4k_linear", "n": 64, "k": 288, "m": 8})", "k is 288, must be a multiple of 256"},
          std::pair{R"({"op": "q4k_linear", "n": 64, "k": 128, "m": 9})", "k is 128, must be a multiple of 256"},
          std::pair{R"({"op": "q4k_linear", "n": 64, "k": 2688, "m": 9})", "k is 2688, must be a multiple of 256"},
          std::pair{R"({"op": "linear", "n": 64, "k": 256, "m": 8, "precision": "fp8"})", "precision"},
      }) {
    const auto problem = parseProblem(text);
    ASSERT_FALSE(problem) << text;
    EXPECT_THAT(problem.error().message, testing::HasSubstr(part)) << text;
  }
}

}  // namespace
}  // namespace tilewright
