// What the CPU lowering may choose or must know.
#pragma once

#include <cstdint>

namespace tilewright::tile {

struct CpuOptions {
  int vectorBytes = 64;  ///< of the target's vector registers: 16, 32 or 64
  int microRows = 8;     ///< rows of a product's register micro-tile
  int microVectors = 2;  ///< and its columns, in vectors
  int unroll = 1;        ///< steps of k in one iteration of the micro-tile's loop
  bool hasF16c = true;   ///< whether the target converts f16 in hardware
};

/// Bytes of tile buffers that a program may keep on the stack of the thread that runs it; more is refused.
inline constexpr std::int64_t kMostStackBytes = 2 << 20;

}  // namespace tilewright::tile
