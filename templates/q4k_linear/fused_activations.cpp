#include "templates/q4k_linear/fused_activations.h"

#include <cassert>

#include "base/integer.h"

namespace tilewright {
namespace {

std::string_view formatOf(const FusedTile& tile) {
  switch (tile.scaleK) {
    case 0:
      return tile.isS8() ? "s8/token" : "e4m3/token";
    case 256:
      return tile.isS8() ? "s8/256" : "e4m3/256";
    case 4096:
      return tile.isS8() ? "s8/4096" : "e4m3/4096";
  }
  assert(false && "a scale_k without a format");
  return {};
}

}  // namespace

FusedActivations::FusedActivations(const FusedTile& tile, const LinearShape& shape) {
  if (tile.isBf16()) return;
  // Tiles have multiples of 16 tokens, at most 256: the last one ends here at the latest.
  constexpr std::int64_t kStep = 16, kHighest = 256;
  format = formatOf(tile);
  mPadded = roundUp(shape.m, kStep) + kHighest - kStep;
  valueBytes = roundUp(shape.m * shape.k * (tile.isS8() ? 2 : 1), 256);
  scaleBytes = roundUp(mPadded * (tile.promotes() ? ceilDiv(shape.k, tile.scaleK) : 1) * 4, 256);
  constexpr std::int64_t kWordK = 16 * 256;  // of a word of flags (q4k_block.cuh)
  flagBytes = tile.isS8() ? roundUp(mPadded * (1 + ceilDiv(shape.k, kWordK) * 8), 256) : 0;
}

// Few tokens get long blocks, for latency, many get short ones, for occupancy.
void encodeQuantization(const LinearShape& shape, const LinearOperands& operands, const FusedActivations& layout,
                        void* buffer, FusedCounters counters, LaunchList& launches) {
  constexpr std::int64_t kFew = 2 * 132;
  const std::int64_t vectors = shape.k / 8;
  std::int64_t steps = shape.m <= kFew ? 1 : 4;
  while (steps < 4 && vectors > steps * 1024) steps *= 2;
  const bool isLong = vectors > steps * 1024;
  const std::int64_t threads = isLong ? 1024 : roundUp((vectors + steps - 1) / steps, 32);
  const int kernel = isLong ? kQuantizeLong : steps == 1 ? kQuantize1 : steps == 2 ? kQuantize2 : kQuantize4;
  auto* const bytes = static_cast<std::byte*>(buffer);
  launches.addKernel(kernel, {static_cast<std::uint32_t>(shape.m), 1, 1}, {static_cast<std::uint32_t>(threads), 1, 1})
      .arguments.value(QuantizeArguments{.x = operands.x,
                                         .quantized = bytes,
                                         .scales = reinterpret_cast<float*>(layout.scales(bytes)),
                                         .outlierTokens = reinterpret_cast<std::uint8_t*>(layout.flags(bytes)),
                                         .outlierChunks = reinterpret_cast<std::uint64_t*>(layout.flagWords(bytes)),
                                         .counters = counters.counters,
                                         .xStride = operands.xStride / 8,
                                         .m = static_cast<std::int32_t>(shape.m),
                                         .k = static_cast<std::int32_t>(shape.k),
                                         .mPadded = static_cast<std::int32_t>(layout.mPadded),
                                         .counterCount = static_cast<std::int32_t>(counters.count)});
}

void encodeClear(FusedCounters counters, LaunchList& launches) {
  KernelArguments& arguments = launches.addKernel(kClearCounters, {1, 1, 1}, {1024, 1, 1}).arguments;
  arguments.pointer(counters.counters), arguments.value(static_cast<std::int32_t>(counters.count));
}

}  // namespace tilewright
