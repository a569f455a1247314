// What follows from a tile's parameters for shared memory and registers. The kernels assert the same numbers when they
// are built.
#include "templates/q4k_linear/fused_tile.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

constexpr std::int64_t kSharedLimit = 232448;

FusedTile fused(std::int64_t tokens, std::int64_t warpgroups, std::int64_t stagesW, std::int64_t tableWarps = 2) {
  return FusedTile(Configuration({{"arithmetic", 0},
                                  {"scale_k", 0},
                                  {"tokens", tokens},
                                  {"warpgroups", warpgroups},
                                  {"step_k", 64},
                                  {"buffers", 2},
                                  {"stages_w", stagesW},
                                  {"table_warps", tableWarps},
                                  {"split", 0}}));
}

FusedTile twoPass(std::int64_t tokens, std::int64_t warpgroups) {
  return FusedTile::expanded(
      Configuration({{"arithmetic", 0}, {"tokens", tokens}, {"warpgroups", warpgroups}, {"split", 0}}));
}

TEST(FusedTile, hasASecondStoreBufferWhereThatCostsLittle) {
  EXPECT_EQ(fused(256, 2, 4).outBuffers(), 1);  // four stages of x fill the memory
  EXPECT_EQ(fused(256, 2, 4).stagesX(), 4);
  EXPECT_EQ(fused(256, 2, 3).outBuffers(), 2);
  EXPECT_EQ(fused(256, 2, 3).stagesX(), 4);
  EXPECT_EQ(fused(128, 2, 4).outBuffers(), 2);  // for one of eight stages
  EXPECT_EQ(fused(128, 2, 4).stagesX(), 7);
  EXPECT_EQ(fused(16, 2, 6).outBuffers(), 1);  // a tile is one box
  EXPECT_EQ(twoPass(256, 2).outBuffers(), 2);
  EXPECT_EQ(twoPass(128, 4).outBuffers(), 2);
}

// What setmaxnreg gives a consumer, by hand: of 65536 registers, in eights a thread, what the other warpgroups leave.
TEST(FusedTile, dealsOutTheRegisters) {
  EXPECT_EQ(fused(256, 2, 4).registersGiven(), 224);
  EXPECT_EQ(fused(128, 3, 4).registersGiven(), 152);
  EXPECT_EQ(fused(64, 4, 3).registersGiven(), 104);
  EXPECT_EQ(fused(64, 5, 3).registersGiven(), 80);
  EXPECT_EQ(fused(128, 2, 4, 4).registersGiven(), 200);
  EXPECT_EQ(fused(64, 3, 4, 4).registersGiven(), 120);
  EXPECT_EQ(fused(64, 4, 3, 4).registersGiven(), 88);
  EXPECT_EQ(fused(64, 5, 3, 4).registersGiven(), 80);
  EXPECT_EQ(fused(64, 2, 6).spareThreads(), 128);  // which leave a consumer less
  EXPECT_EQ(fused(64, 2, 6).registersGiven(), 168);
  EXPECT_EQ(fused(64, 2, 6, 4).spareThreads(), 0);
  EXPECT_EQ(fused(64, 2, 6, 4).registersGiven(), 200);
}

TEST(FusedTile, stagesAreAsManyAsFit) {
  for (const std::int64_t tokens : {16, 32, 64, 128, 192, 256}) {
    for (const std::int64_t warpgroups : {2, 3, 4}) {
      for (const FusedTile& tile : {fused(tokens, warpgroups, 3), twoPass(tokens, warpgroups)}) {
        const std::int64_t stage = tokens * 128 + (tile.isExpanded ? tile.rows() * 128 : 0);
        if (tile.stagesX() < 4) continue;  // refused
        EXPECT_LE(tile.sharedBytes(), kSharedLimit) << tokens << " tokens, " << warpgroups << " warpgroups";
        if (tile.stagesX() < 8) {
          EXPECT_GT(tile.sharedBytes() + stage, kSharedLimit - 2048) << tokens << " tokens, " << warpgroups;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
