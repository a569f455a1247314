#include "tests/conformance/case.h"

#include <algorithm>

namespace tilewright::conformance {
namespace {

// 16 bytes in BF16 elements.
constexpr std::int64_t kVector = 8;

bool isAligned(const Strides& strides) {
  return strides.column == 1 && strides.row > 0 && strides.head > 0 && strides.batch > 0 &&
         strides.row % kVector == 0 && strides.head % kVector == 0 && strides.batch % kVector == 0;
}

}  // namespace

Alignment alignmentOf(const Case& each) {
  const reference::OperandOptions& options = each.operands;
  bool aligned = options.baseOffset % kVector == 0;
  if (each.problem.isLinear()) {
    const LinearShape& shape = each.problem.linear;
    aligned = aligned && (shape.k + options.xPadding) % kVector == 0 && (shape.n + options.outPadding) % kVector == 0 &&
              (each.problem.operation == Operation::kQ4kLinear || shape.k % kVector == 0);
  } else {
    aligned = aligned && options.scale >= 0;  // 0: the default factor
    for (const auto& strides : {options.qStrides, options.kStrides, options.vStrides, options.outStrides}) {
      aligned = aligned && (!strides || isAligned(*strides));
    }
  }
  return aligned ? Alignment::k16 : Alignment::kAny;
}

Case withOtherColumns(Case each) {
  std::int64_t& n = each.problem.linear.n;
  const std::int64_t half = n / 16 * 8 + n % 8;
  n = half > 0 && half < n ? half : n + 8;
  each.everyPair = false;
  return each;
}

Case withMoreRows(Case each) {
  each.problem.linear.m = 4 * each.problem.linear.m + 16;
  each.everyPair = false;
  return each;
}

bool hasFlows(const Case& each) {
  static constexpr std::string_view kNames[] = {"rows_one",
                                                "rows_tail_133",
                                                "padded_37_rows_seven",
                                                "padded_257_rows_133",
                                                "padded_1638_rows_seven",
                                                "columns_tail_1638",
                                                "bias",
                                                "executorch_q_k_o",
                                                "executorch_gate_up",
                                                "kv_lengths_",
                                                "fa3_1023x1024_",
                                                "decode_16384",
                                                "decode_4096",
                                                "prefill_512x16384_d64",
                                                "head_dim_256_causal",
                                                "every_pair_lengths_",
                                                "every_pair_long_",
                                                "every_pair_1638x",
                                                "prepared_257_rows_133"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return each.name.starts_with(name); });
}

std::vector<Case> casesOf(Operation operation) {
  return operation == Operation::kAttention ? attentionCases() : linearCases(operation);
}

}  // namespace tilewright::conformance
