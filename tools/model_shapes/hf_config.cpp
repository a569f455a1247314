#include "tools/model_shapes/hf_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "format/json_fields.h"

namespace tilewright {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::int64_t kMaximumSize = std::int64_t{1} << 31;
constexpr std::int64_t kMaximumLayers = 1 << 14;

// Older models name the same sizes differently.
constexpr std::string_view kHiddenSize[] = {"hidden_size", "n_embd", "d_model"};
constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head", "n_heads"};
constexpr std::string_view kKvHeads[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv"};
constexpr std::string_view kFeedForward[] = {"intermediate_size", "n_inner", "ffn_dim"};
constexpr std::string_view kContext[] = {"max_position_embeddings", "n_positions", "max_seq_len"};
constexpr std::string_view kWindowPattern[] = {"sliding_window_pattern", "_sliding_window_pattern"};
constexpr std::string_view kSparseStep[] = {"decoder_sparse_step", "interleave_moe_layer_step"};
constexpr std::string_view kExperts[] = {"num_local_experts", "num_experts", "n_routed_experts"};

// Feed-forward networks of two matrices; all others have three, with a gate.
constexpr std::array kWithoutGate = {"gpt2",   "gpt_neo", "gpt_neox",   "gptj", "gpt_bigcode", "opt",      "bloom",
                                     "falcon", "phi",     "starcoder2", "mpt",  "nemotron",    "persimmon"};
// Query, key and value projections with a bias although the file does not say so.
constexpr std::array kWithQkvBias = {"qwen2",         "qwen2_moe",  "qwen2_vl",
                                     "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"};

// Sizes that published files leave to the defaults of their model class in `transformers`.
struct ClassDefault {
  std::string_view modelType, key;
  std::int64_t value;
};
constexpr ClassDefault kClassDefaults[] = {
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "vocab_size", 262208},
    {"gemma3_text", "sliding_window_pattern", 6},
    {"gemma3_text", "max_position_embeddings", 131072},
};

enum class LayerKind : std::uint8_t { kFull, kSliding, kChunked, kLinear, kLatent, kOther };

// A config object in which a null counts as missing.
class Config {
 public:
  Config(const JsonFields& fields) : fields_(fields) {}

  const JsonValue* find(std::string_view name) const {
    const JsonValue* value = fields_.find(name);
    return value == nullptr || value->isNull() ? nullptr : value;
  }
  std::string_view firstOf(Names names) const {
    for (const std::string_view name : names) {
      if (find(name) != nullptr) return name;
    }
    return names.front();
  }

  Result<std::int64_t> integer(Names names, std::int64_t minimum, std::int64_t maximum) const {
    const std::string_view name = firstOf(names);
    if (find(name) == nullptr) {
      if (const auto value = classDefault(names.front())) return *value;
      return std::unexpected(jsonError(fields_.value(), fields_.path(), fmt::format("key '{}' is missing", name)));
    }
    const std::int64_t value = TW_TRY(fields_.integer(name));
    if (value < minimum || value > maximum) {
      return std::unexpected(
          fields_.errorAt(name, fmt::format("{} is {}, must be from {} to {}", name, value, minimum, maximum)));
    }
    return value;
  }
  Result<std::int64_t> integerOr(Names names, std::int64_t fallback) const {
    const std::string_view name = firstOf(names);
    if (find(name) == nullptr) return classDefault(names.front()).value_or(fallback);
    return integer(name, 0, kMaximumSize);
  }
  Result<std::int64_t> integer(std::string_view name, std::int64_t minimum, std::int64_t maximum) const {
    return integer(Names(&name, 1), minimum, maximum);
  }
  Result<std::int64_t> integerOr(std::string_view name, std::int64_t fallback) const {
    return integerOr(Names(&name, 1), fallback);
  }
  Result<bool> booleanOr(std::string_view name, bool fallback) const {
    return find(name) == nullptr ? fallback : fields_.booleanOr(name, fallback);
  }
  std::string_view textOr(std::string_view name, std::string_view fallback) const {
    const JsonValue* value = find(name);
    return value == nullptr || value->asString() == nullptr ? fallback : std::string_view(*value->asString());
  }
  const JsonFields& fields() const { return fields_; }

 private:
  std::optional<std::int64_t> classDefault(std::string_view key) const {
    const std::string_view type = textOr("model_type", "");
    for (const ClassDefault& entry : kClassDefaults) {
      if (entry.modelType == type && entry.key == key) return entry.value;
    }
    return std::nullopt;
  }

  const JsonFields& fields_;
};

LayerKind kindFromName(std::string_view name) {
  if (name == "full_attention" || name == "attention") return LayerKind::kFull;
  if (name == "sliding_attention") return LayerKind::kSliding;
  if (name == "chunked_attention") return LayerKind::kChunked;
  if (name == "linear_attention") return LayerKind::kLinear;
  return LayerKind::kOther;
}

Result<std::vector<LayerKind>> listedKinds(const Config& config, const JsonValue::Array& types, std::int64_t layers) {
  if (static_cast<std::int64_t>(types.size()) != layers) {
    return std::unexpected(config.fields().errorAt(
        "layer_types", fmt::format("layer_types has {} entries, the model has {} layers", types.size(), layers)));
  }
  std::vector<LayerKind> kinds;
  for (const JsonValue& type : types) {
    if (type.asString() == nullptr) {
      return std::unexpected(config.fields().errorAt("layer_types", "layer_types must hold strings"));
    }
    kinds.push_back(kindFromName(*type.asString()));
  }
  return kinds;
}

// Which layers see only a window or a chunk of the keys. `layer_types` says it; older files leave it to the model type.
Result<std::vector<LayerKind>> layerKinds(const Config& config, std::int64_t layers) {
  std::vector<LayerKind> kinds(static_cast<std::size_t>(layers), LayerKind::kFull);
  const auto fill = [&](LayerKind kind, auto isOfKind) {
    for (std::int64_t i = 0; i < layers; ++i) {
      if (isOfKind(i)) kinds[static_cast<std::size_t>(i)] = kind;
    }
  };
  if (TW_TRY(config.integerOr("kv_lora_rank", 0)) > 0) {
    fill(LayerKind::kLatent, [](std::int64_t) { return true; });
    return kinds;
  }
  if (const JsonValue* types = config.find("layer_types"); types != nullptr && types->asArray() != nullptr) {
    return listedKinds(config, *types->asArray(), layers);
  }
  if (TW_TRY(config.integerOr("attention_chunk_size", 0)) > 0) {
    // Llama 4: every fourth layer has no rotary embedding and sees everything.
    const std::int64_t interval = TW_TRY(config.integerOr("no_rope_layer_interval", 4));
    fill(LayerKind::kChunked, [&](std::int64_t i) { return interval == 0 || (i + 1) % interval != 0; });
    return kinds;
  }
  if (TW_TRY(config.integerOr("sliding_window", 0)) == 0) return kinds;

  const std::string_view type = config.textOr("model_type", "");
  const std::int64_t pattern = TW_TRY(config.integerOr(kWindowPattern, 0));
  if (pattern > 0) {
    fill(LayerKind::kSliding, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  } else if (type == "gemma2" || type == "gpt_oss") {
    fill(LayerKind::kSliding, [](std::int64_t i) { return i % 2 == 0; });
  } else if (type.starts_with("qwen")) {
    const bool used = TW_TRY(config.booleanOr("use_sliding_window", false));
    const std::int64_t first = TW_TRY(config.integerOr("max_window_layers", 0));
    fill(LayerKind::kSliding, [&](std::int64_t i) { return used && i >= first; });
  } else if (TW_TRY(config.booleanOr("use_sliding_window", true))) {
    fill(LayerKind::kSliding, [](std::int64_t) { return true; });
  }
  return kinds;
}

struct Attention {
  std::int64_t qHeads, kvHeads, headDim;
  bool gated, qkvBias, outputBias;

  auto operator<=>(const Attention&) const = default;
};

void addAttentionLinears(const Attention& attention, std::int64_t hidden, std::int64_t count, Model& model) {
  const std::int64_t queryRows = attention.qHeads * attention.headDim * (attention.gated ? 2 : 1);
  const LinearPart query{queryRows, queryRows / attention.qHeads, false};
  const LinearPart keyOrValue{attention.kvHeads * attention.headDim, attention.headDim, true};
  const auto add = [&](std::string_view use, std::vector<LinearPart> parts) {
    model.linears.push_back(
        {.use = std::string(use), .parts = std::move(parts), .k = hidden, .bias = attention.qkvBias, .count = count});
  };
  add("q", {query});
  add("k", {keyOrValue});
  add("v", {keyOrValue});
  add("qkv", {query, keyOrValue, keyOrValue});
  model.linears.push_back({.use = "attention_output",
                           .parts = {{hidden}},
                           .k = attention.qHeads * attention.headDim,
                           .bias = attention.outputBias,
                           .split = Split::kRows,
                           .count = count});
}

void addFeedForward(std::int64_t hidden, std::int64_t inner, bool gate, bool bias, std::int64_t count, Model& model) {
  const auto add = [&](std::string_view use, std::vector<LinearPart> parts) {
    model.linears.push_back(
        {.use = std::string(use), .parts = std::move(parts), .k = hidden, .bias = bias, .count = count});
  };
  if (gate) {
    add("gate", {{inner}});
    add("up", {{inner}});
    add("gate_up", {{inner}, {inner}});
  } else {
    add("up", {{inner}});
  }
  model.linears.push_back(
      {.use = "down", .parts = {{hidden}}, .k = inner, .bias = bias, .split = Split::kRows, .count = count});
}

// How many of the layers have a dense feed-forward network; the others are mixtures of experts.
Result<std::int64_t> denseLayers(const Config& config, std::int64_t layers) {
  if (TW_TRY(config.integerOr(kExperts, 0)) <= 1) return layers;
  const std::int64_t leading = TW_TRY(config.integerOr("first_k_dense_replace", 0));
  const std::int64_t step = std::max<std::int64_t>(1, TW_TRY(config.integerOr(kSparseStep, 1)));
  std::set<std::int64_t> listed;
  if (const JsonValue* value = config.find("mlp_only_layers"); value != nullptr && value->asArray() != nullptr) {
    for (const JsonValue& layer : *value->asArray()) {
      if (layer.asInteger() != nullptr) listed.insert(*layer.asInteger());
    }
  }
  std::int64_t dense = 0;
  for (std::int64_t i = 0; i < layers; ++i) dense += i < leading || (i + 1) % step != 0 || listed.contains(i);
  return dense;
}

bool contains(std::span<const char* const> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<Attention> attentionOf(const Config& config, std::int64_t hidden) {
  Attention attention{};
  attention.qHeads = TW_TRY(config.integer(kHeads, 1, kMaximumSize));
  const bool multiQuery = TW_TRY(config.booleanOr("multi_query", false));
  attention.kvHeads = TW_TRY(config.integerOr(kKvHeads, multiQuery ? 1 : attention.qHeads));
  attention.headDim = TW_TRY(config.integerOr("head_dim", 0));
  if (attention.headDim == 0) {
    if (hidden % attention.qHeads != 0) {
      return std::unexpected(config.fields().errorAt(
          config.firstOf(kHeads), fmt::format("hidden size {} is not a multiple of {} heads and there is no head_dim",
                                              hidden, attention.qHeads)));
    }
    attention.headDim = hidden / attention.qHeads;
  }
  if (attention.kvHeads < 1 || attention.qHeads % attention.kvHeads != 0) {
    return std::unexpected(config.fields().errorAt(
        config.firstOf(kKvHeads),
        fmt::format("{} key-value heads do not divide {} attention heads", attention.kvHeads, attention.qHeads)));
  }
  const std::string_view type = config.textOr("model_type", "");
  const bool bias = TW_TRY(config.booleanOr("attention_bias", false));
  attention.gated = TW_TRY(config.booleanOr("attn_output_gate", false));
  attention.qkvBias = bias || contains(kWithQkvBias, type);
  attention.outputBias = bias && (type == "llama" || type == "gpt_oss");
  return attention;
}

// Adds the layers of one kind, whose attention is covered or counted as not covered.
void addLayers(LayerKind kind, const Attention& attention, const Config& config, std::int64_t hidden,
               std::int64_t count, Model& model) {
  const auto notCovered = [&](std::string_view what) { model.notCovered[std::string(what)] += count; };
  if (kind == LayerKind::kLatent) return notCovered("latent attention layers (MLA)");
  if (kind == LayerKind::kLinear) return notCovered("linear attention layers");
  if (kind == LayerKind::kOther) return notCovered("layers without attention or of an unknown kind");
  addAttentionLinears(attention, hidden, count, model);
  if (kind == LayerKind::kSliding) return notCovered("attention layers with a sliding window");
  if (kind == LayerKind::kChunked) return notCovered("attention layers with chunks");
  if (config.find("attn_logit_softcapping") != nullptr) return notCovered("attention layers with logit soft capping");
  if (config.textOr("model_type", "") == "gpt_oss") return notCovered("attention layers with sinks");
  model.attentions.push_back(
      {.qHeads = attention.qHeads, .kvHeads = attention.kvHeads, .headDim = attention.headDim, .count = count});
}

Result<Model> languageModel(const Config& config) {
  Model model;
  const std::int64_t layers = TW_TRY(config.integer(kLayers, 1, kMaximumLayers));
  if (TW_TRY(config.booleanOr("is_encoder_decoder", false))) {
    model.notCovered["encoder-decoder layers"] = layers;
    return model;
  }
  const std::int64_t hidden = TW_TRY(config.integer(kHiddenSize, 1, kMaximumSize));
  const std::string_view type = config.textOr("model_type", "");
  model.contextLength = TW_TRY(config.integerOr(kContext, 0));

  const Attention attention = TW_TRY(attentionOf(config, hidden));
  const std::vector<LayerKind> kinds = TW_TRY(layerKinds(config, layers));
  for (const LayerKind kind : {LayerKind::kFull, LayerKind::kSliding, LayerKind::kChunked, LayerKind::kLinear,
                               LayerKind::kLatent, LayerKind::kOther}) {
    const std::int64_t count = std::ranges::count(kinds, kind);
    if (count == 0) continue;
    Attention ofKind = attention;
    if (kind == LayerKind::kFull) {
      // Gemma 4 gives its global layers heads of their own.
      ofKind.headDim = TW_TRY(config.integerOr("global_head_dim", attention.headDim));
      ofKind.kvHeads = TW_TRY(config.integerOr("num_global_key_value_heads", attention.kvHeads));
    }
    addLayers(kind, ofKind, config, hidden, count, model);
  }

  const std::int64_t dense = TW_TRY(denseLayers(config, layers));
  if (dense > 0) {
    // Falcon and GPT-2 leave the inner size out when it is four times the hidden size.
    const bool gate = !contains(kWithoutGate, type);
    const std::int64_t inner = gate ? TW_TRY(config.integer(kFeedForward, 1, kMaximumSize))
                                    : TW_TRY(config.integerOr(kFeedForward, 4 * hidden));
    addFeedForward(hidden, inner, gate, TW_TRY(config.booleanOr("mlp_bias", false)), dense, model);
  }
  if (dense < layers) model.notCovered["mixture-of-experts layers"] = layers - dense;

  model.linears.push_back({.use = "output",
                           .parts = {{TW_TRY(config.integer("vocab_size", 1, kMaximumSize))}},
                           .k = hidden,
                           .split = Split::kPaddedColumns});
  return model;
}

}  // namespace

bool isModelConfig(const JsonValue& value) {
  for (const std::string_view name :
       {"model_type", "architectures", "hidden_size", "n_embd", "d_model", "text_config"}) {
    if (value.find(name) != nullptr) return true;
  }
  return false;
}

Result<Model> modelFromConfig(const JsonValue& value) {
  JsonFields fields = TW_TRY(JsonFields::of(value, ""));
  // Models of several modalities nest their language model.
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    const JsonValue* nested = value.find(name);
    if (nested == nullptr || nested->asObject() == nullptr) continue;
    fields = TW_TRY(JsonFields::of(*nested, std::string(name)));
    break;
  }
  Model model = TW_TRY(languageModel(Config(fields)));
  for (const auto& [key, kind] : {std::pair{"vision_config", "vision encoders"}, {"audio_config", "audio encoders"}}) {
    const JsonValue* encoder = value.find(key);
    if (encoder != nullptr && !encoder->isNull()) model.notCovered[kind] += 1;
  }
  return model;
}

}  // namespace tilewright
