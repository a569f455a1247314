// From config.json to problems: defaults, older names, biases, what is not covered, and wrong sizes.
#include "tools/model_shapes/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/json_parse.h"
#include "tests/tools/shape_texts.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

Result<ModelShapes> shapesOfConfig(std::string_view text) {
  const auto value = parseJson(text);
  if (!value) return std::unexpected(value.error());
  return deriveShapes(TW_TRY(modelFromConfig(*value)), {.rows = {1}, .queries = {1}, .keys = {64}});
}

// A small model with more members.
std::string config(std::string_view members) {
  return fmt::format(
      R"({{"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
                         "vocab_size": 1000{}{}}})",
      members.empty() ? "" : ", ", members);
}

TEST(HfConfig, missingSizesHaveDefaults) {
  const auto shapes = shapesOfConfig(config(R"("head_dim": null, "unknown": {"nested": [1]}, "sliding_window": null)"));
  ASSERT_TRUE(shapes) << shapes.error().message;
  // 8 heads of 512 / 8 elements, as many key-value heads, a head dimension of 64.
  EXPECT_THAT(textOf(*shapes), testing::IsSupersetOf({"qkv 4 q4k_linear 1536x512", "attention 4 8/8 d64 causal"}));
}

TEST(HfConfig, nestedAndOlderNamesAreFound) {
  const auto nested =
      shapesOfConfig(fmt::format(R"({{"model_type": "x", "text_config": {}, "vision_config": {{}}}})", config("")));
  ASSERT_TRUE(nested) << nested.error().message;
  EXPECT_EQ(nested->notCovered, (NotCovered{{"vision encoders", 1}}));
  const auto gpt2 =
      shapesOfConfig(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257})");
  ASSERT_TRUE(gpt2) << gpt2.error().message;
  EXPECT_THAT(textOf(*gpt2),
              testing::ElementsAre("q+k+v+attention_output 48 q4k_linear 768x768", "qkv 12 q4k_linear 2304x768",
                                   "up 12 q4k_linear 3072x768", "down 12 q4k_linear 768x3072",
                                   "output 1 q4k_linear 50257x768", "attention 12 12/12 d64 causal"));
}

TEST(HfConfig, biasesAreTheModelTypes) {
  const auto qwen = shapesOfConfig(config(R"("model_type": "qwen2")"));
  ASSERT_TRUE(qwen);
  EXPECT_THAT(textOf(*qwen),
              testing::IsSupersetOf({"qkv 4 q4k_linear 1536x512 bias", "attention_output 4 q4k_linear 512x512"}));
  const auto llama = shapesOfConfig(config(R"("model_type": "llama", "attention_bias": true)"));
  ASSERT_TRUE(llama);
  EXPECT_THAT(textOf(*llama), testing::Contains("q+k+v+attention_output 16 q4k_linear 512x512 bias"));
}

TEST(HfConfig, whatIsNotCoveredIsCountedByKind) {
  struct Case {
    std::string_view members;
    NotCovered notCovered;
    std::string_view attention;  ///< how the remaining attention is listed, or empty for none
  };
  const std::string_view sliding = "attention layers with a sliding window";
  const auto kind = [](std::string_view name, std::int64_t count) { return NotCovered{{std::string(name), count}}; };
  for (const auto& [members, notCovered, attention] : std::initializer_list<Case>{
           {R"("sliding_window": 128)", kind(sliding, 4), ""},
           {R"("sliding_window": 128, "model_type": "qwen2", "use_sliding_window": false)",
            {},
            "attention 4 8/8 d64 causal"},
           {R"("sliding_window": 128, "model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 3)",
            kind(sliding, 1), "attention 3 8/8 d64 causal"},
           {R"("sliding_window": 128, "model_type": "gemma2")", kind(sliding, 2), "attention 2 8/8 d64 causal"},
           {R"("sliding_window": 128, "sliding_window_pattern": 4)", kind(sliding, 3), "attention 1 8/8 d64 causal"},
           {R"("layer_types": ["sliding_attention", "full_attention", "linear_attention", "other"])",
            {{std::string(sliding), 1},
             {"linear attention layers", 1},
             {"layers without attention or of an unknown kind", 1}},
            "attention 1 8/8 d64 causal"},
           {R"("attention_chunk_size": 8192)", kind("attention layers with chunks", 3), "attention 1 8/8 d64 causal"},
           {R"("attn_logit_softcapping": 50.0)", kind("attention layers with logit soft capping", 4), ""},
           {R"("kv_lora_rank": 512)", kind("latent attention layers (MLA)", 4), ""},
           {R"("num_local_experts": 8)", kind("mixture-of-experts layers", 4), "attention 4 8/8 d64 causal"},
           {R"("n_routed_experts": 8, "first_k_dense_replace": 1)", kind("mixture-of-experts layers", 3),
            "attention 4 8/8 d64 causal"},
           {R"("num_experts": 8, "decoder_sparse_step": 2)", kind("mixture-of-experts layers", 2),
            "attention 4 8/8 d64 causal"},
           {R"("num_experts": 8, "mlp_only_layers": [0, 1, 2])", kind("mixture-of-experts layers", 1),
            "attention 4 8/8 d64 causal"},
           {R"("head_dim": 512)", kind("attention layers with head_dim 512", 4), ""},
           {R"("is_encoder_decoder": true)", kind("encoder-decoder layers", 4), ""},
       }) {
    const auto shapes = shapesOfConfig(config(members));
    ASSERT_TRUE(shapes) << members << shapes.error().message;
    EXPECT_EQ(shapes->notCovered, notCovered) << members;
    const auto lines = textOf(*shapes);
    const bool listed = !attention.empty() && std::ranges::find(lines, attention) != lines.end();
    const bool any = std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with("attention "); });
    EXPECT_TRUE(attention.empty() ? !any : listed) << members << testing::PrintToString(lines);
  }
}

TEST(HfConfig, globalLayersMayHaveHeadsOfTheirOwn) {
  const auto shapes =
      shapesOfConfig(config(R"("layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention"], "num_key_value_heads": 8, "global_head_dim": 128, "num_global_key_value_heads": 2)"));
  ASSERT_TRUE(shapes) << shapes.error().message;
  EXPECT_THAT(textOf(*shapes), testing::IsSupersetOf({"qkv 4 q4k_linear 1536x512", "k+v 2 q4k_linear 256x512",
                                                      "attention 1 8/2 d128 causal"}));
}

TEST(HfConfig, wrongSizesNameTheKey) {
  struct Case {
    std::string_view text, message;
  };
  for (
      const auto& [text, message] : std::initializer_list<Case>{
          {R"({"model_type": "llama"})", "key 'num_hidden_layers' is missing"},
          {R"({"hidden_size": 512, "num_hidden_layers": 2})", "key 'num_attention_heads' is missing"},
          {R"({"hidden_size": "512", "num_hidden_layers": 2, "num_attention_heads": 8})",
           "at hidden_size: expected an integer, found a string"},
          {R"({"hidden_size": 512, "num_hidden_layers": 2.5, "num_attention_heads": 8})",
           "at num_hidden_layers: expected an integer"},
          {R"({"hidden_size": -512, "num_hidden_layers": 2, "num_attention_heads": 8})",
           "hidden_size is -512, must be from 1"},
          {R"({"hidden_size": 512, "num_hidden_layers": 0, "num_attention_heads": 8})",
           "num_hidden_layers is 0, must be from 1"},
          {R"({"hidden_size": 512, "num_hidden_layers": 1000000000, "num_attention_heads": 8})",
           "num_hidden_layers is 1000000000"},
          {R"({"hidden_size": 9000000000, "num_hidden_layers": 2, "num_attention_heads": 8})",
           "must be from 1 to 2147483648"},
          {R"({"hidden_size": 500, "num_hidden_layers": 2, "num_attention_heads": 8})",
           "hidden size 500 is not a multiple of 8 heads"},
          {R"({"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 3})",
           "3 key-value heads do not divide 8 attention heads"},
          {R"({"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": [8, 8]})",
           "at num_key_value_heads: expected an integer, found an array"},
          {R"({"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "layer_types": ["full_attention"]})",
           "layer_types has 1 entries, the model has 2 layers"},
          {R"({"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8, "layer_types": [3]})",
           "layer_types must hold strings"},
          {R"({"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8})",
           "key 'intermediate_size' is missing"},
          {R"({"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8, "intermediate_size": 1024})",
           "key 'vocab_size' is missing"},
          {R"({"text_config": {"hidden_size": true, "num_hidden_layers": 1}})",
           "at text_config.hidden_size: expected an integer"},
      }) {
    const auto shapes = shapesOfConfig(text);
    ASSERT_FALSE(shapes) << text;
    EXPECT_EQ(shapes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(shapes.error().message, HasSubstr(std::string(message))) << text;
  }
}

}  // namespace
}  // namespace tilewright
