// The schedule of tiles and parts: every super-block of every tile has one owner, whatever the shape and the device.
//
// The walk below follows the text of split_schedule.cuh, not its code.
#include "templates/q4k_linear/split_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace tilewright {
namespace {

constexpr SplitMode kModes[] = {SplitMode::kNone, SplitMode::kShares, SplitMode::kSlices, SplitMode::kPairs};

struct Part {
  std::int64_t block, begin, end;
};

/// For each tile, the parts that the blocks compute, in the order of k.
std::vector<std::vector<Part>> walk(const SplitPlan& plan) {
  const SplitSchedule& s = plan.schedule;
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(s.tiles));
  const auto add = [&](std::int64_t tile, Part part) { parts[static_cast<std::size_t>(tile)].push_back(part); };
  for (std::int64_t b = 0; b < plan.grid; ++b) {
    for (std::int64_t tile = b; tile < s.wholeTiles; tile += plan.grid) add(tile, {b, 0, s.blocks});
    const std::int64_t splitTiles = s.tiles - s.wholeTiles;
    if (s.cluster > 0) {
      const std::int64_t rank = b % s.cluster;
      const std::int64_t tile = s.wholeTiles + b / s.cluster;
      if (tile < s.tiles) add(tile, {b, s.blocks * rank / s.cluster, s.blocks * (rank + 1) / s.cluster});
    } else if (s.slices > 0) {
      const std::int64_t tile = b / s.slices, begin = b % s.slices * s.chunk;
      if (tile < splitTiles) add(s.wholeTiles + tile, {b, begin, std::min<std::int64_t>(begin + s.chunk, s.blocks)});
    } else if (s.chunk > 0) {
      for (std::int64_t at = b * s.chunk; at < std::min((b + 1) * s.chunk, splitTiles * s.blocks);) {
        const std::int64_t tile = at / s.blocks;
        const std::int64_t end = std::min({(tile + 1) * s.blocks, (b + 1) * s.chunk, splitTiles * s.blocks});
        add(s.wholeTiles + tile, {b, at - tile * s.blocks, end - tile * s.blocks});
        at = end;
      }
    }
  }
  return parts;
}

TEST(SplitSchedule, givesEverySuperBlockOneOwner) {
  for (const int units : {1, 78, 114, 132}) {
    for (const std::int64_t tiles : {1, 2, 31, 52, 66, 112, 132, 133, 224, 312, 1000}) {
      for (const std::int64_t blocks : {1, 2, 16, 26, 56, 576}) {
        for (const SplitMode mode : kModes) {
          const SplitPlan plan = planSplit(tiles * 128, blocks * 256, 200, {128, 256}, units, mode);
          SCOPED_TRACE(testing::Message() << units << " units, " << tiles << " tiles of " << blocks << ", mode "
                                          << static_cast<int>(mode));
          ASSERT_LE(plan.grid, units);
          if (plan.schedule.cluster > 0) {
            const SplitPlan whole = planSplit(tiles * 128, blocks * 256, 200, {128, 256}, plan.grid, SplitMode::kNone);
            ASSERT_LT(plan.longestBlock(), whole.longestBlock());
            ASSERT_EQ(plan.schedule.cluster, clusterBlocks(mode));
            ASSERT_EQ(plan.grid % plan.schedule.cluster, 0);
            ASSERT_EQ(plan.slots, 0);
          }
          std::int64_t longest = 0;
          std::vector<std::int64_t> load(static_cast<std::size_t>(plan.grid));
          for (const std::vector<Part>& parts : walk(plan)) {
            std::int64_t at = 0;
            for (const Part& part : parts) {
              ASSERT_EQ(part.begin, at);
              ASSERT_LT(part.begin, part.end);
              at = part.end;
              load[static_cast<std::size_t>(part.block)] += part.end - part.begin;
            }
            ASSERT_EQ(at, blocks);
          }
          for (const std::int64_t each : load) longest = std::max(longest, each);
          ASSERT_LE(longest, plan.longestBlock());
        }
      }
    }
  }
}

TEST(SplitSchedule, sharesAreEvenerThanTurns) {
  const auto longest = [](std::int64_t tiles, SplitMode mode) {
    return planSplit(tiles * 128, 6656, 64, {128, 64}, 132, mode).longestBlock();
  };
  EXPECT_EQ(longest(66, SplitMode::kNone), 26);
  EXPECT_EQ(longest(66, SplitMode::kSlices), 13);
  EXPECT_EQ(longest(66, SplitMode::kPairs), 13);
  EXPECT_EQ(longest(174, SplitMode::kPairs), 39);
  EXPECT_EQ(longest(224, SplitMode::kNone), 52);
  EXPECT_EQ(longest(224, SplitMode::kShares), 45);  // 224 * 26 / 132 = 44.1
}

TEST(SplitSchedule, whatFillsTheDeviceIsNotSplit) {
  for (const SplitMode mode : {SplitMode::kShares, SplitMode::kSlices, SplitMode::kPairs}) {
    const SplitPlan plan = planSplit(264 * 128, 6656, 64, {128, 64}, 132, mode);
    EXPECT_EQ(plan.splitTiles, 0);
    EXPECT_EQ(plan.slots, 0);
    EXPECT_EQ(plan.grid, 132);
  }
}

TEST(SplitSchedule, clustersLeaveAloneWhatTheyDoNotShorten) {
  // 92 tiles on 66 pairs take two rounds of a half, as long as one of whole tiles; one super-block is not to be halved.
  EXPECT_EQ(planSplit(92 * 128, 6656, 64, {128, 64}, 132, SplitMode::kPairs).schedule.cluster, 0);
  EXPECT_EQ(planSplit(20 * 128, 256, 64, {128, 64}, 132, SplitMode::kPairs).schedule.cluster, 0);
  EXPECT_EQ(planSplit(20 * 128, 512, 64, {128, 64}, 132, SplitMode::kPairs).schedule.cluster, 2);
}

}  // namespace
}  // namespace tilewright
