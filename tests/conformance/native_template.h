// Templates written in plain C++ that run on the CPU device, right or with one planted mistake: they show that the
// cases and the harness tell right from wrong. A mistake is one that a kernel writer makes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "templates/template.h"
#include "tests/conformance/harness.h"

namespace tilewright::conformance {

enum class Mistake : std::uint8_t {
  kNone,
  // Linear operations.
  kForgetsBias,
  kSkipsColumnTail,    ///< columns beyond the last multiple of 8
  kSkipsRowTail,       ///< rows beyond the last multiple of 8
  kSkipsLastSubBlock,  ///< the last 32 of k
  kAssumesDenseX,
  kAssumesDenseOut,
  kWrapsExtreme,         ///< 127 becomes -128, as a careless 8-bit conversion does
  kSaturatesHalf,        ///< activations beyond 448 saturate
  kNanForZeroRow,        ///< divides by the row's largest value
  kDropsMinOfZeroStep,   ///< d = 0 is taken for a block of zeros
  kDropsSignOfStep,      ///< |d|
  kPreparesHalf,         ///< of the weights that are prepared once
  kTakesBitsOfNextBase,  ///< loads from addresses rounded down to 16 bytes
  kWritesGap,            ///< one element beyond each row
  kReadsGap,             ///< multiplies what lies beyond a row by zero
  kDiffersByRun,         ///< one output depends on how often it ran
  kOverrunsWorkspace,
  kMostRowsAtOnce,  ///< computes at most 4096 rows
  kOverrunsActivations,
  // Linear operations, seen by their own flows alone.
  kDiffersRarely,     ///< one run in 512 gives another bit
  kTakesEightBlocks,  ///< deals rows to eight blocks, whatever the device's count of units lets it launch
  kLaysRowsOutByN,    ///< stores activations in an order of rows that depends on n
  kLaysRowsOutByM,    ///< stores prepared weights in an order of rows that depends on m
  kPutsSpareFirst,    ///< stores a part of prepared weights that only some plans have before the one that all have
  // Attention.
  kTrustsHint,       ///< takes the problem's kv_len for the truth
  kIgnoresKvLength,  ///< takes the capacity
  kMirrorsNegative,  ///< |kv_len|
  kAlignsTopLeft,
  kMasksOneTooMany,
  kForgetsMask,
  kGroupsByModulo,  ///< kv head = head % kv_heads
  kBaseTwo,         ///< log-sum-exp in base 2
  kForgetsLogSumExp,
  kNanForEmptyRow,
  kSkipsEmptyRow,
  kFiniteEmptyRow,  ///< log-sum-exp of a row without keys is -1e30
  kFiniteSentinel,  ///< starts the maximum at -5e4
  kForgetsScale,
  kAssumesUnitColumn,
  kTakesStridesOfK,  ///< for V
  kAssumesDenseBatch,
  kSkipsKeyTail,         ///< keys beyond the last multiple of 16
  kReadsBeyondLength,    ///< multiplies V beyond kv_len by zero
  kSkipsChannelTail,     ///< channels beyond the last multiple of 16
  kRoundsProbabilities,  ///< to 4 significant bits
  kSkipsSecondHalf,      ///< keys from 4096 on
};

/// Every mistake of an operation that plain runs of its cases show.
std::vector<Mistake> mistakesOf(Operation operation);
std::string_view mistakeName(Mistake mistake);

/// A template for the CPU with one mistake. With a spare part its prepared weights are of the format "blocks+spare", of
/// which plans without one read the beginning.
std::unique_ptr<Template> makeNativeTemplate(Operation operation, Mistake mistake, bool hasSpare = false);
/// What builds and loads such templates.
Build nativeBuild();
std::unique_ptr<HostLoader> makeNativeLoader();

}  // namespace tilewright::conformance
