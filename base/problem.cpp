#include "base/problem.h"

#include <algorithm>

namespace tilewright {
namespace {

// Sizes up to 2^40 keep every product that addresses memory (size times stride times bytes) inside 63 bits only when
// the tensors fit a machine; the memory check is the runtime's. This bound keeps the packed key exact.
constexpr std::int64_t kMaximumSize = std::int64_t{1} << 40;

Result<void> inRange(const Problem& problem, std::string_view name, std::int64_t value, std::int64_t minimum) {
  if (value < minimum || value > kMaximumSize) {
    return fail(ErrorCode::kInvalidArgument, "invalid {} problem: {} is {}, must be from {} to 2^40",
                operationName(problem.operation), name, value, minimum);
  }
  return {};
}

Result<void> validateLinear(const Problem& problem) {
  const LinearShape& shape = problem.linear;
  TW_TRY(inRange(problem, "n", shape.n, 1));
  TW_TRY(inRange(problem, "k", shape.k, 1));
  TW_TRY(inRange(problem, "m", shape.m, 0));
  if (problem.operation == Operation::kQ4kLinear && shape.k % 256 != 0) {
    return fail(ErrorCode::kInvalidArgument, "invalid q4k_linear problem: k is {}, must be a multiple of 256", shape.k);
  }
  if (problem.operation == Operation::kLinear && shape.precision != Precision::kExact) {
    return fail(ErrorCode::kInvalidArgument, "invalid linear problem: precision is {}, must be exact",
                precisionName(shape.precision));
  }
  if (problem.operation == Operation::kLinear && shape.prepared) {
    return fail(ErrorCode::kInvalidArgument,
                "invalid linear problem: prepared is true, must be false: only q4k_linear prepares its weights");
  }
  return {};
}

Result<void> validateAttention(const Problem& problem) {
  const AttentionShape& shape = problem.attention;
  if (shape.dtype != DType::kBf16) {
    return fail(ErrorCode::kInvalidArgument, "invalid attention problem: dtype is {}, must be bf16",
                dtypeName(shape.dtype));
  }
  TW_TRY(inRange(problem, "batch", shape.batch, 0));
  TW_TRY(inRange(problem, "q_heads", shape.qHeads, 1));
  TW_TRY(inRange(problem, "kv_heads", shape.kvHeads, 1));
  TW_TRY(inRange(problem, "q_len", shape.qLen, 0));
  TW_TRY(inRange(problem, "kv_len", shape.kvLen, 0));
  if (shape.qHeads % shape.kvHeads != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "invalid attention problem: q_heads is {}, must be a multiple of kv_heads, which is {}", shape.qHeads,
                shape.kvHeads);
  }
  if (shape.headDim < 8 || shape.headDim > 256 || shape.headDim % 8 != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "invalid attention problem: head_dim is {}, must be a multiple of 8 from 8 to 256", shape.headDim);
  }
  return {};
}

double visibleArea(const AttentionShape& shape) {
  const auto rows = static_cast<double>(shape.qLen);
  const auto keys = static_cast<double>(shape.kvLen);
  if (!shape.causal) return rows * keys;
  // Row m sees max(0, keys - rows + m + 1) keys; the last min(rows, keys) rows see any.
  const double seeing = std::min(rows, keys);
  return seeing * keys - seeing * (seeing - 1) / 2;
}

}  // namespace

std::string_view operationName(Operation operation) {
  switch (operation) {
    case Operation::kQ4kLinear:
      return "q4k_linear";
    case Operation::kLinear:
      return "linear";
    case Operation::kAttention:
      return "attention";
  }
  return "unknown";
}

std::string_view precisionName(Precision precision) {
  switch (precision) {
    case Precision::kExact:
      return "exact";
    case Precision::kFp8:
      return "fp8";
    case Precision::kInt8:
      return "int8";
    case Precision::kFast:
      return "fast";
  }
  return "unknown";
}

std::optional<Operation> operationFromName(std::string_view name) {
  for (const auto operation : {Operation::kQ4kLinear, Operation::kLinear, Operation::kAttention}) {
    if (name == operationName(operation)) return operation;
  }
  return std::nullopt;
}

std::optional<Precision> precisionFromName(std::string_view name) {
  for (const auto precision : {Precision::kExact, Precision::kFp8, Precision::kInt8, Precision::kFast}) {
    if (name == precisionName(precision)) return precision;
  }
  return std::nullopt;
}

Result<void> validate(const Problem& problem) {
  return problem.isLinear() ? validateLinear(problem) : validateAttention(problem);
}

std::string toJson(const Problem& problem) {
  std::string text;
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    text = fmt::format(R"({{"op": "{}", "n": {}, "k": {}, "m": {})", operationName(problem.operation), shape.n, shape.k,
                       shape.m);
    if (problem.operation == Operation::kQ4kLinear) {
      text += fmt::format(R"(, "precision": "{}")", precisionName(shape.precision));
    }
    if (shape.bias) text += R"(, "bias": true)";
    if (shape.prepared) text += R"(, "prepared": true)";
  } else {
    const AttentionShape& shape = problem.attention;
    text = fmt::format(
        R"({{"op": "attention", "dtype": "{}", "batch": {}, "q_heads": {}, "kv_heads": {}, "head_dim": {}, "q_len": {}, )"
        R"("kv_len": {}, "causal": {})",
        dtypeName(shape.dtype), shape.batch, shape.qHeads, shape.kvHeads, shape.headDim, shape.qLen, shape.kvLen,
        shape.causal);
    if (shape.logSumExp) text += R"(, "lse": true)";
  }
  if (problem.alignment == Alignment::kAny) text += R"(, "alignment": "any")";
  return text + "}";
}

PackedProblem pack(const Problem& problem) {
  const auto flag = [](auto value, int shift) { return static_cast<std::uint64_t>(value) << shift; };
  const auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  PackedProblem words{};
  words[0] = flag(problem.operation, 0) | flag(problem.alignment, 8);
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    words[0] |= flag(shape.precision, 16) | flag(shape.bias, 24) | flag(shape.prepared, 25);
    words[1] = size(shape.n), words[2] = size(shape.k), words[3] = size(shape.m);
  } else {
    const AttentionShape& shape = problem.attention;
    words[0] |= flag(shape.dtype, 16) | flag(shape.causal, 24) | flag(shape.logSumExp, 25) | flag(shape.headDim, 32);
    words[1] = size(shape.batch), words[2] = size(shape.qHeads), words[3] = size(shape.kvHeads);
    words[4] = size(shape.qLen), words[5] = size(shape.kvLen);
  }
  return words;
}

double flops(const Problem& problem) {
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  }
  const AttentionShape& shape = problem.attention;
  return 4.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.qHeads) *
         static_cast<double>(shape.headDim) * visibleArea(shape);
}

double bytes(const Problem& problem) {
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
    const double weightBytes = problem.operation == Operation::kQ4kLinear ? n * k * 144 / 256 : n * k * 2;
    return weightBytes + 2 * m * k + 2 * m * n + (shape.bias ? 2 * n : 0);
  }
  const AttentionShape& shape = problem.attention;
  const auto width = static_cast<double>(shape.batch) * static_cast<double>(shape.headDim) * dtypeBytes(shape.dtype);
  const double queries = width * static_cast<double>(shape.qHeads) * static_cast<double>(shape.qLen);
  const double keys = width * static_cast<double>(shape.kvHeads) * static_cast<double>(shape.kvLen);
  return 2 * queries + 2 * keys;
}

}  // namespace tilewright
