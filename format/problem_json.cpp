#include "format/problem_json.h"

#include <algorithm>
#include <cmath>

#include "format/json_fields.h"
#include "format/json_parse.h"
#include "format/listing.h"

namespace tilewright {
namespace {

constexpr std::string_view kLinearKeys[] = {"op", "n", "k", "m", "precision", "bias", "prepared", "alignment"};
constexpr std::string_view kAttentionKeys[] = {"op",    "dtype",  "batch",  "q_heads", "kv_heads", "head_dim",
                                               "q_len", "kv_len", "causal", "lse",     "alignment"};

struct Feature {
  std::string_view key;
  std::string_view phrase;
};

// What other libraries' problems have and ours do not.
constexpr Feature kMissingFeatures[] = {
    {"mask", "masks are"},
    {"attn_mask", "masks are"},
    {"attention_mask", "masks are"},
    {"window", "sliding windows are"},
    {"window_size", "sliding windows are"},
    {"sliding_window", "sliding windows are"},
    {"attention_chunk", "chunked attention is"},
    {"softcap", "logit soft capping is"},
    {"logit_softcap", "logit soft capping is"},
    {"paged", "paged key-value caches are"},
    {"page_size", "paged key-value caches are"},
    {"block_table", "paged key-value caches are"},
    {"cu_seqlens", "ragged batches are"},
    {"alibi", "ALiBi biases are"},
    {"alibi_slopes", "ALiBi biases are"},
    {"sinks", "attention sinks are"},
    {"dropout", "dropout is"},
    {"v_head_dim", "value heads of another dimension are"},
    {"activation", "fused activations are"},
    {"experts", "mixtures of experts are"},
    {"num_experts", "mixtures of experts are"},
};

Result<void> refuseMissingFeatures(const JsonFields& fields) {
  for (const JsonMember& member : *fields.value().asObject()) {
    const auto feature = std::ranges::find(kMissingFeatures, member.name, &Feature::key);
    if (feature == std::end(kMissingFeatures)) continue;
    Error error = fields.errorAt(member.name, fmt::format("{} not supported", feature->phrase));
    error.code = ErrorCode::kUnsupported;
    return std::unexpected(std::move(error));
  }
  return {};
}

Result<Operation> operationOf(const JsonFields& fields) {
  const std::string name = TW_TRY(fields.string("op"));
  const auto operation = operationFromName(name);
  if (!operation) {
    return std::unexpected(
        fields.errorAt("op", fmt::format("unknown operation '{}'; known are q4k_linear, linear and attention", name)));
  }
  return *operation;
}

Result<Alignment> alignmentOf(const JsonFields& fields) {
  const std::string name = TW_TRY(fields.stringOr("alignment", "16"));
  if (name == "16") return Alignment::k16;
  if (name == "any") return Alignment::kAny;
  return std::unexpected(fields.errorAt("alignment", fmt::format("alignment is '{}', must be '16' or 'any'", name)));
}

Result<LinearShape> linearOf(const JsonFields& fields) {
  LinearShape shape;
  shape.n = TW_TRY(fields.integer("n"));
  shape.k = TW_TRY(fields.integer("k"));
  shape.m = TW_TRY(fields.integer("m"));
  const std::string precision = TW_TRY(fields.stringOr("precision", precisionName(shape.precision)));
  const auto known = precisionFromName(precision);
  if (!known) {
    return std::unexpected(
        fields.errorAt("precision", fmt::format("precision is '{}', must be exact, fp8, int8 or fast", precision)));
  }
  shape.precision = *known;
  shape.bias = TW_TRY(fields.booleanOr("bias", false));
  shape.prepared = TW_TRY(fields.booleanOr("prepared", false));
  return shape;
}

Result<AttentionShape> attentionOf(const JsonFields& fields) {
  AttentionShape shape;
  const std::string dtype = TW_TRY(fields.stringOr("dtype", dtypeName(shape.dtype)));
  if (dtype != dtypeName(DType::kBf16)) {
    Error error = fields.errorAt("dtype", fmt::format("attention on '{}' is not supported, dtype must be bf16", dtype));
    error.code = ErrorCode::kUnsupported;
    return std::unexpected(std::move(error));
  }
  shape.batch = TW_TRY(fields.integerOr("batch", shape.batch));
  shape.qHeads = TW_TRY(fields.integer("q_heads"));
  shape.kvHeads = TW_TRY(fields.integer("kv_heads"));
  shape.headDim = TW_TRY(fields.integer("head_dim"));
  shape.qLen = TW_TRY(fields.integer("q_len"));
  shape.kvLen = TW_TRY(fields.integer("kv_len"));
  shape.causal = TW_TRY(fields.booleanOr("causal", false));
  shape.logSumExp = TW_TRY(fields.booleanOr("lse", false));
  return shape;
}

Result<Problem> problemOf(const JsonFields& fields, std::span<const std::string_view> extraKeys) {
  Problem problem;
  problem.operation = TW_TRY(operationOf(fields));
  TW_TRY(refuseMissingFeatures(fields));
  const auto keys = problemKeys(problem.operation);
  std::vector<std::string_view> allowed(keys.begin(), keys.end());
  allowed.insert(allowed.end(), extraKeys.begin(), extraKeys.end());
  TW_TRY(fields.allowOnly(allowed));

  problem.alignment = TW_TRY(alignmentOf(fields));
  if (problem.isLinear()) {
    problem.linear = TW_TRY(linearOf(fields));
  } else {
    problem.attention = TW_TRY(attentionOf(fields));
  }
  if (auto valid = validate(problem); !valid) {
    Error error = jsonError(fields.value(), fields.path(), valid.error().message);
    error.code = valid.error().code;
    return std::unexpected(std::move(error));
  }
  return problem;
}

}  // namespace

std::span<const std::string_view> problemKeys(Operation operation) {
  return operation == Operation::kAttention ? std::span<const std::string_view>(kAttentionKeys) : kLinearKeys;
}

Result<Problem> problemFromJson(const JsonValue& value, std::string path) {
  return problemOf(TW_TRY(JsonFields::of(value, std::move(path))), {});
}

Result<Problem> parseProblem(std::string_view text) {
  return problemFromJson(TW_TRY(parseJson(text)));
}

Result<std::vector<ListedProblem>> problemListFromJson(const JsonValue& value) {
  const JsonValue::Array* entries = value.asArray();
  std::string_view name = "";
  if (entries == nullptr) {
    entries = TW_TRY(listingEntries(value, "problems", {{"not_covered"}}));
    name = "problems";
  }
  constexpr std::string_view kExtraKeys[] = {"count", "use"};
  constexpr double kMaximumCount = 1e15;  // Sums of them stay far within a double.
  std::vector<ListedProblem> problems;
  for (const JsonValue& entry : *entries) {
    const JsonFields fields = TW_TRY(JsonFields::of(entry, fmt::format("{}[{}]", name, problems.size())));
    ListedProblem listed;
    listed.problem = TW_TRY(problemOf(fields, kExtraKeys));
    listed.count = TW_TRY(fields.numberOr("count", 1));
    if (!(listed.count > 0 && listed.count <= kMaximumCount)) {
      return std::unexpected(fields.errorAt(
          "count", fmt::format("count is {}, must be above 0 and at most {}", listed.count, kMaximumCount)));
    }
    listed.use = TW_TRY(fields.stringOr("use", ""));
    problems.push_back(std::move(listed));
  }
  return problems;
}

JsonValue problemToJson(const Problem& problem) {
  JsonValue value = JsonValue::object({{"op", operationName(problem.operation)}});
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    value.add("n", shape.n), value.add("k", shape.k), value.add("m", shape.m);
    if (problem.operation == Operation::kQ4kLinear) value.add("precision", precisionName(shape.precision));
    if (shape.bias) value.add("bias", true);
    if (shape.prepared) value.add("prepared", true);
  } else {
    const AttentionShape& shape = problem.attention;
    value.add("dtype", dtypeName(shape.dtype)), value.add("batch", shape.batch);
    value.add("q_heads", shape.qHeads), value.add("kv_heads", shape.kvHeads), value.add("head_dim", shape.headDim);
    value.add("q_len", shape.qLen), value.add("kv_len", shape.kvLen), value.add("causal", shape.causal);
    if (shape.logSumExp) value.add("lse", true);
  }
  if (problem.alignment == Alignment::kAny) value.add("alignment", "any");
  return value;
}

JsonValue listedProblemToJson(const ListedProblem& listed) {
  JsonValue value = problemToJson(listed.problem);
  const bool whole = std::floor(listed.count) == listed.count && std::abs(listed.count) < 1e15;
  value.add("count", whole ? JsonValue(static_cast<std::int64_t>(listed.count)) : JsonValue(listed.count));
  if (!listed.use.empty()) value.add("use", listed.use);
  return value;
}

}  // namespace tilewright
