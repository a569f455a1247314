#include "tests/conformance/case.h"

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

std::vector<Case> casesOf(Operation operation) {
  return operation == Operation::kAttention ? attentionCases() : linearCases(operation);
}

}  // namespace tilewright::conformance
