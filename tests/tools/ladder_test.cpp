// Ladders of sizes: the three forms, their limits, and what is refused.
#include "tools/model_shapes/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Ladder, readsListsAndRanges) {
  struct Case {
    std::string_view text;
    std::vector<std::int64_t> sizes;
  };
  for (const auto& [text, sizes] : std::initializer_list<Case>{
           {"7", {7}},
           {"0", {0}},
           {"64,1,64,2", {1, 2, 64}},
           {"64:512:x2", {64, 128, 256, 512}},
           {"64:500:x2", {64, 128, 256}},
           {"1,128:512:+128", {1, 128, 256, 384, 512}},
           {"128:500:+128", {128, 256, 384}},
           {"5:5:x2", {5}},
           {"0:4:+2", {0, 2, 4}},
           {"1:1099511627776:x1099511627776", {1, 1099511627776}},
       }) {
    const auto ladder = parseLadder("--m", text, 0);
    ASSERT_TRUE(ladder) << text << ladder.error().message;
    EXPECT_EQ(*ladder, sizes) << text;
  }
}

TEST(Ladder, refusesEverythingElse) {
  struct Case {
    std::string_view text, message;
  };
  for (const auto& [text, message] : std::initializer_list<Case>{
           {"", "cannot read ''"},
           {"1,", "cannot read ''"},
           {"a", "cannot read 'a'"},
           {"1.5", "cannot read '1.5'"},
           {"1 ", "cannot read '1 '"},
           {"1:2", "cannot read '1:2'"},
           {"1:8:2", "cannot read '1:8:2'"},
           {"1:8:x1", "cannot read"},
           {"1:8:+0", "cannot read"},
           {"1:8:x-2", "cannot read"},
           {"0:8:x2", "FIRST from 1 and FACTOR from 2"},
           {"8:1:x2", "LAST from FIRST on"},
           {"-1", "'-1' is out of range, sizes must be from 0 to 2^40"},
           {"1099511627777", "out of range"},
           {"99999999999999999999", "cannot read"},
           {"1:1000000:+1", "has more than 1000 sizes"},
       }) {
    const auto ladder = parseLadder("--m", text, 0);
    ASSERT_FALSE(ladder) << text;
    EXPECT_THAT(ladder.error().message,
                testing::AllOf(testing::StartsWith("--m: "), testing::HasSubstr(std::string(message))));
  }
  EXPECT_FALSE(parseLadder("--batch", "0", 1));
}

}  // namespace
}  // namespace tilewright
