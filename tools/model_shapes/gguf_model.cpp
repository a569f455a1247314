#include "tools/model_shapes/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>

namespace tilewright {
namespace {

using LayerTensors = std::map<std::string, const GgufTensor*, std::less<>>;

// Matrices whose rows are looked up, or that no matrix multiplication reads.
constexpr std::string_view kNoLinears[] = {"token_embd", "token_types", "position_embd", "per_layer_token_embd",
                                           "ssm_conv1d", "ssm_a",       "shortconv.conv"};

constexpr std::int64_t kOutside = -1;  // the layer of tensors outside the blocks

// "blk.12.attn_q.weight" as layer 12, part "attn_q" and suffix "weight".
struct TensorName {
  std::int64_t layer = kOutside;
  std::string_view part;
  std::string_view suffix;
};

TensorName nameOf(std::string_view name) {
  TensorName result;
  const std::size_t dot = name.rfind('.');
  result.suffix = dot == std::string_view::npos ? std::string_view{} : name.substr(dot + 1);
  std::string_view stem = name.substr(0, dot);
  if (stem.starts_with("blk.")) {
    const std::string_view rest = stem.substr(4);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result.layer);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (error == std::errc{} && digits < rest.size() && rest[digits] == '.') {
      stem = rest.substr(digits + 1);
    } else {
      result.layer = kOutside;
    }
  }
  result.part = stem;
  return result;
}

// What the parts of a fused linear are called, and what it is called itself.
struct Fusion {
  std::string_view use;
  std::initializer_list<std::string_view> parts;
};
const Fusion kFusions[] = {{"qkv", {"attn_q", "attn_k", "attn_v"}}, {"gate_up", {"ffn_gate", "ffn_up"}}};

// Sizes of one layer's attention.
struct Heads {
  std::int64_t q = 0, kv = 0, keyLength = 0, valueLength = 0;
  auto operator<=>(const Heads&) const = default;
};

class GgufReader {
 public:
  explicit GgufReader(const GgufHeader& header) : header_(header), architecture_(header.text("general.architecture")) {}

  Result<Model> read() {
    if (header_.find("general.architecture") == nullptr) {
      return fail(ErrorCode::kCorrupt, "GGUF header has no general.architecture");
    }
    if (architecture_.empty()) {
      return fail(ErrorCode::kCorrupt, "GGUF key general.architecture is no string of 1 to 4096 bytes");
    }
    for (const std::string_view name : kIntegerKeys) TW_TRY(header_.expectIntegers(key(name), true));
    for (const GgufTensor& tensor : header_.tensors()) {
      const TensorName name = nameOf(tensor.name);
      if (name.suffix == "bias") biases_[name.layer].insert(std::string(name.part));
      if (name.suffix == "weight") layers_[name.layer][std::string(name.part)] = &tensor;
    }
    model_.contextLength =
        std::clamp<std::int64_t>(header_.integer(key("context_length")).value_or(0), 0, kMaximumContext);
    for (const GgufTensor& tensor : header_.tensors()) {
      const TensorName name = nameOf(tensor.name);
      if (name.suffix == "weight") addTensor(name.layer, name.part, tensor);
    }
    for (const auto& [layer, tensors] : layers_) {
      if (layer == kOutside) continue;
      for (const Fusion& fusion : kFusions) addFusion(layer, tensors, fusion);
      TW_TRY(addAttention(layer, tensors));
    }
    addTiedOutput();
    return std::move(model_);
  }

 private:
  static constexpr std::int64_t kMaximumContext = std::int64_t{1} << 40;
  // Read below, as one number or one for each layer.
  static constexpr std::string_view kIntegerKeys[] = {
      "context_length",       "embedding_length",       "attention.head_count",     "attention.head_count_kv",
      "attention.key_length", "attention.value_length", "attention.sliding_window", "attention.sliding_window_pattern",
      "attention.causal"};

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

  bool hasBias(std::int64_t layer, std::string_view part) const {
    const auto parts = biases_.find(layer);
    return parts != biases_.end() && parts->second.contains(std::string(part));
  }

  // The value of a key that is one number for all layers or an array with one for each.
  std::int64_t perLayer(std::string_view name, std::int64_t layer, std::int64_t fallback) const {
    const GgufValue* value = header_.find(key(name));
    if (value == nullptr || value->integers.empty()) return fallback;
    if (!value->isArray) return value->integers.front();
    const auto index = static_cast<std::size_t>(layer);
    return index < value->integers.size() ? value->integers[index] : fallback;
  }

  Heads headsOf(std::int64_t layer) const {
    Heads heads;
    heads.q = perLayer("attention.head_count", layer, 0);
    heads.kv = perLayer("attention.head_count_kv", layer, heads.q);
    const std::int64_t width = header_.integer(key("embedding_length")).value_or(0);
    const std::int64_t fallback = heads.q > 0 ? width / heads.q : 0;
    heads.keyLength = perLayer("attention.key_length", layer, fallback);
    heads.valueLength = perLayer("attention.value_length", layer, fallback);
    return heads;
  }

  static std::string useOf(std::string_view part) {
    static constexpr std::pair<std::string_view, std::string_view> kUses[] = {{"attn_q", "q"},
                                                                              {"attn_k", "k"},
                                                                              {"attn_v", "v"},
                                                                              {"attn_qkv", "qkv"},
                                                                              {"attn_output", "attention_output"},
                                                                              {"ffn_gate", "gate"},
                                                                              {"ffn_up", "up"},
                                                                              {"ffn_down", "down"},
                                                                              {"output", "output"}};
    const auto use = std::ranges::find(kUses, part, &std::pair<std::string_view, std::string_view>::first);
    return std::string(use == std::end(kUses) ? part : use->second);
  }

  static Split splitOf(std::string_view part) {
    if (part == "output" || part == "token_embd") return Split::kPaddedColumns;
    return part.find("down") != std::string_view::npos || part.find("output") != std::string_view::npos
               ? Split::kRows
               : Split::kColumns;
  }

  // Parts whose rows are heads, for tensor parallelism; everything else is divided row by row.
  std::vector<LinearPart> partsOf(std::int64_t layer, std::string_view part, std::int64_t rows) const {
    const Heads heads = headsOf(layer);
    const auto divides = [&](std::int64_t length) { return length > 0 && rows % length == 0; };
    if (part == "attn_q" && divides(heads.q)) return {{rows, rows / heads.q, false}};
    if ((part == "attn_k" || part == "attn_v") && divides(heads.kv)) return {{rows, rows / heads.kv, true}};
    if (part == "attn_qkv" && heads.kv > 0 && heads.keyLength > 0 && heads.keyLength == heads.valueLength &&
        std::max({heads.q, heads.kv, heads.keyLength}) <= rows && rows % heads.keyLength == 0 &&
        rows / heads.keyLength == heads.q + 2 * heads.kv) {
      const LinearPart keyOrValue{heads.kv * heads.keyLength, heads.keyLength, true};
      return {{heads.q * heads.keyLength, heads.keyLength, false}, keyOrValue, keyOrValue};
    }
    return {{rows}};
  }

  // Equal layers become one with their count.
  void count(LinearLayer layer) {
    std::string text = fmt::format("{} {} {} {}", layer.use, static_cast<int>(layer.operation), layer.k, layer.bias);
    for (const LinearPart& part : layer.parts) text += fmt::format(" {}/{}", part.rows, part.unit);
    const auto [known, isNew] = linearIndex_.try_emplace(std::move(text), model_.linears.size());
    if (isNew) {
      model_.linears.push_back(std::move(layer));
    } else {
      model_.linears[known->second].count += 1;
    }
  }

  void addTensor(std::int64_t layer, std::string_view part, const GgufTensor& tensor) {
    const bool matrix = tensor.dimensions >= 2 && tensor.size[1] > 1;
    if (!matrix || std::ranges::find(kNoLinears, part) != std::end(kNoLinears)) return;
    if (tensor.dimensions > 2) {
      model_.notCovered[fmt::format("expert weights ({})", tensor.type.name)] += 1;
      return;
    }
    addMatrix(layer, part, useOf(part), tensor);
  }

  void addMatrix(std::int64_t layer, std::string_view part, std::string use, const GgufTensor& tensor) {
    if (tensor.type.id != kGgufQ4K && tensor.type.id != kGgufBf16) {
      model_.notCovered[fmt::format("{} weights", tensor.type.name)] += 1;
      return;
    }
    count({.use = std::move(use),
           .operation = tensor.type.id == kGgufQ4K ? Operation::kQ4kLinear : Operation::kLinear,
           .parts = partsOf(layer, part, tensor.size[1]),
           .k = tensor.size[0],
           .bias = hasBias(layer, part),
           .split = splitOf(part)});
  }

  void addFusion(std::int64_t layer, const LayerTensors& tensors, const Fusion& fusion) {
    LinearLayer fused{.use = std::string(fusion.use)};
    for (const std::string_view part : fusion.parts) {
      const auto found = tensors.find(part);
      if (found == tensors.end()) return;
      const GgufTensor& tensor = *found->second;
      const bool first = fused.parts.empty(), bias = hasBias(layer, part);
      if (tensor.type.id != kGgufQ4K || tensor.dimensions != 2) return;
      if (!first && (tensor.size[0] != fused.k || bias != fused.bias)) return;
      fused.k = tensor.size[0], fused.bias = bias;
      std::ranges::copy(partsOf(layer, part, tensor.size[1]), std::back_inserter(fused.parts));
    }
    count(std::move(fused));
  }

  // Models that tie the output head to the embedding have no "output.weight".
  void addTiedOutput() {
    const LayerTensors& outside = layers_[kOutside];
    const auto embedding = outside.find("token_embd");
    if (outside.contains("output") || embedding == outside.end() || embedding->second->dimensions != 2) return;
    addMatrix(kOutside, "token_embd", "output", *embedding->second);
  }

  // Which layers see only a window. Newer files say it layer by layer; for older ones the architecture does.
  bool slides(std::int64_t layer) const {
    if (header_.integer(key("attention.sliding_window")).value_or(0) <= 0) return false;
    const GgufValue* pattern = header_.find(key("attention.sliding_window_pattern"));
    if (pattern != nullptr && pattern->isArray) return perLayer("attention.sliding_window_pattern", layer, 0) != 0;
    static constexpr std::pair<std::string_view, std::int64_t> kPeriods[] = {
        {"gemma2", 2}, {"gemma3", 6}, {"gemma3n", 5}, {"cohere2", 4}, {"gpt-oss", 2}, {"exaone4", 4}, {"olmo2", 4}};
    std::int64_t period = pattern != nullptr && !pattern->integers.empty() ? pattern->integers.front() : 0;
    for (const auto& [name, ofArchitecture] : kPeriods) {
      if (period == 0 && name == architecture_) period = ofArchitecture;
    }
    return period <= 0 || (layer + 1) % period != 0;
  }

  Result<void> addAttention(std::int64_t layer, const LayerTensors& tensors) {
    const auto has = [&](std::string_view part) { return tensors.contains(part); };
    const auto notCovered = [&](std::string_view what) { model_.notCovered[std::string(what)] += 1; };
    if (has("attn_kv_a_mqa") || has("attn_kv_b") || has("attn_k_b")) {
      notCovered("latent attention layers (MLA)");
      return {};
    }
    if (has("ssm_in") || has("ssm_out") || has("ssm_conv1d") || has("time_mix_key")) notCovered("state-space layers");
    if (!has("attn_q") && !(has("attn_qkv") && !has("ssm_conv1d"))) return {};

    const Heads heads = headsOf(layer);
    if (heads.q < 1 || heads.kv < 1 || heads.keyLength < 1) {
      return fail(ErrorCode::kCorrupt,
                  "GGUF header has attention in block {}, but {} is {}, {} is {} and the head size is {}", layer,
                  key("attention.head_count"), heads.q, key("attention.head_count_kv"), heads.kv, heads.keyLength);
    }
    if (slides(layer)) {
      notCovered("attention layers with a sliding window");
    } else if (header_.find(key("attn_logit_softcapping")) != nullptr) {
      notCovered("attention layers with logit soft capping");
    } else if (has("attn_sinks")) {
      notCovered("attention layers with sinks");
    } else if (heads.keyLength != heads.valueLength) {
      notCovered("attention layers with value heads of another dimension");
    } else {
      addHeads(heads);
    }
    return {};
  }

  void addHeads(const Heads& heads) {
    const bool causal = perLayer("attention.causal", 0, 1) != 0;
    for (AttentionLayer& known : model_.attentions) {
      if (known.qHeads == heads.q && known.kvHeads == heads.kv && known.headDim == heads.keyLength) {
        known.count += 1;
        return;
      }
    }
    model_.attentions.push_back({.qHeads = heads.q, .kvHeads = heads.kv, .headDim = heads.keyLength, .causal = causal});
  }

  const GgufHeader& header_;
  std::string architecture_;
  std::map<std::int64_t, LayerTensors> layers_;
  std::map<std::int64_t, std::set<std::string, std::less<>>> biases_;
  std::map<std::string, std::size_t, std::less<>> linearIndex_;  ///< of a layer's text in model_.linears
  Model model_;
};

}  // namespace

Result<Model> modelFromGguf(const GgufHeader& header) {
  return GgufReader(header).read();
}

}  // namespace tilewright
