// Checks what a caller hands to a launch, and finds out what its addresses allow.
//
// Rules, for both operations: pointers are not null and aligned to their element (2 bytes; 4 for kv_len and
// log-sum-exp; Q4_K blocks 2), output strides do not overlap, and nothing spans more bytes than the device has. Every
// violation is kInvalidArgument and names the operand, its value and the rule.
#pragma once

#include "base/device_info.h"
#include "base/problem.h"
#include "base/result.h"
#include "templates/launch.h"

namespace tilewright {

/// Whether the problem has no output at all, so that a launch does nothing and may have null operands.
bool hasEmptyOutput(const Problem& problem);

/// Checks the operands of a problem with an output. Strides that no element depends on (of dimensions of one element)
/// are replaced by aligned ones. The result: k16 if every base and every leading stride is a multiple of 16 bytes and
/// inner strides are 1, else kAny.
Result<Alignment> checkOperands(const Problem& problem, const DeviceInfo& device, Operands& operands);

/// The operand of a quantization ahead of calls: x alone. Pointer and row stride must be multiples of 16 bytes; the
/// stride of a single row is replaced by an aligned one.
Result<void> checkActivationOperand(const Problem& problem, const DeviceInfo& device, Operands& operands);

/// The operands of a weight preparation: W alone.
Result<void> checkWeights(const Problem& problem, const Operands& operands);

}  // namespace tilewright
