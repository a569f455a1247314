// One configuration of fused_sm90.cu or two_pass_sm90.cu: its parameters, and what follows from them for shared memory,
// registers and time.
#pragma once

#include <cstdint>

#include "base/device_info.h"
#include "base/problem.h"
#include "templates/configuration.h"
#include "templates/q4k_linear/split_schedule.h"

namespace tilewright {

enum class FusedArithmetic : std::int64_t { kS8 = 0, kE4m3 = 1, kBf16 = 2 };

struct FusedTile {
  FusedArithmetic arithmetic;
  std::int64_t tokens, warpgroups;
  SplitMode splitMode;
  bool isExpanded = false;  ///< W in 8 bits (two_pass_sm90.cu); then the next five are 0
  std::int64_t scaleK = 0, stepK = 0, buffers = 0, stagesW = 0, tableWarps = 0;

  /// Of a configuration of fused_sm90 or exact_sm90, or of two_pass_sm90; it has passed refusesValues().
  explicit FusedTile(const Configuration& configuration);
  static FusedTile expanded(const Configuration& configuration);

  bool isS8() const { return arithmetic == FusedArithmetic::kS8; }
  bool isBf16() const { return arithmetic == FusedArithmetic::kBf16; }
  bool promotes() const { return scaleK != 0; }
  std::int64_t rows() const { return warpgroups * 64; }
  bool hasTableWarpgroup() const { return tableWarps == 4; }
  std::int64_t threads() const { return (warpgroups + 1 + (hasTableWarpgroup() ? 1 : 0)) * 128; }
  std::int64_t cluster() const { return clusterBlocks(splitMode); }
  /// Whether registers are left to keep track of split tiles (fused_sm90_layout.cuh).
  bool canSplit() const { return !(hasTableWarpgroup() && warpgroups == 5); }
  std::int64_t outTokens() const { return tokens / cluster() % 32 == 0 && tokens > 64 ? 32 : 16; }

  /// Stages of x, and of expanded W: as many as fit, at most 8; fewer than 4 are a refusal.
  std::int64_t stagesX() const { return stagesBeside(outBuffers()); }
  /// Buffers of a warpgroup for its stores of out: 2 where that costs no stage, or leaves 6, and a tile has several.
  std::int64_t outBuffers() const;
  /// As fused_sm90_layout.cuh lays it out, which asserts this number.
  std::int64_t sharedBytes() const;
  /// A consumer thread's registers, about; and what setmaxnreg gives it.
  std::int64_t registersWanted() const;
  std::int64_t registersGiven() const;
  /// Threads whose registers stay free: few tokens do not need them, and then a block that quantizes x may fit beside
  /// the product's on an SM, whose prologue no longer waits for it. 128 threads' 128 registers each serve 512 with 32,
  /// or 384 with the 40 that s8 takes (docs/notes/q4k_linear.md has what it gained). A warpgroup for the table takes
  /// those registers.
  std::int64_t spareThreads() const {
    return !isBf16() && !hasTableWarpgroup() && warpgroups == 2 && accumulatorsAndFragments() <= 64 ? 128 : 0;
  }

  SplitPlan split(const LinearShape& shape, int units) const {
    return planSplit(shape.n, shape.k, shape.m, {rows(), tokens}, units, splitMode);
  }
  /// Bytes of one split tile's part.
  std::int64_t slotBytes() const { return rows() * tokens * 4; }

  /// Cost model of the whole call, activation quantization and expansion of W included.
  double predictMicroseconds(const LinearShape& shape, const DeviceInfo& device) const;

 private:
  struct CommonParameters {};
  FusedTile(const Configuration& configuration, CommonParameters);

  std::int64_t accumulatorsAndFragments() const;
  std::int64_t sharedBytes(std::int64_t stagesX, std::int64_t outBuffers) const;
  std::int64_t stagesBeside(std::int64_t outBuffers) const;
};

}  // namespace tilewright
