#include "tests/conformance/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace tilewright::conformance {
namespace {

// `guard` elements of no tensor before element 0.
OutputBits bitsOf(const std::vector<float>& out, const std::vector<float>& lse, std::size_t guard = 0) {
  OutputBits bits{std::vector<std::byte>((guard + out.size()) * sizeof(Bf16)),
                  std::vector<std::byte>(lse.size() * sizeof(float))};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Bf16 value = toBf16(out[i]);
    std::memcpy(&bits[0][(guard + i) * sizeof value], &value, sizeof value);
  }
  if (!lse.empty()) std::memcpy(bits[1].data(), lse.data(), bits[1].size());
  return bits;
}

TEST(Difference, isEmptyBetweenTheSameBits) {
  const OutputBits bits = bitsOf({1, 2, 3}, {4});
  EXPECT_EQ(differenceOf(bits, bits, {0, 0}), "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(differenceOf(bitsOf({nan}, {}), bitsOf({nan}, {}), {0, 0}), "");
}

TEST(Difference, namesTheFirstPairTheFurthestAndTheRange) {
  EXPECT_EQ(differenceOf(bitsOf({0, 1, 2, 3, 4, 5}, {}, 3), bitsOf({0, 1.5, 2, 7, 4, 6}, {}, 3), {6, 0}),
            "in 3 values of out, elements 1 to 5: 1.5 instead of 1 at 1, 7 instead of 3 at 3");
}

TEST(Difference, tellsSignsOfZeroApart) {
  EXPECT_EQ(differenceOf(bitsOf({0}, {}), bitsOf({-0.0F}, {}), {0, 0}),
            "in 1 values of out, elements 0 to 0: -0 instead of 0 at 0, -0 instead of 0 at 0");
}

TEST(Difference, takesNanForTheFurthest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(differenceOf(bitsOf({1, 2, 3}, {}), bitsOf({9, nan, 30}, {}), {0, 0}),
            "in 3 values of out, elements 0 to 2: 9 instead of 1 at 0, nan instead of 2 at 1");
}

TEST(Difference, looksAtTheLogSumExpToo) {
  EXPECT_EQ(differenceOf(bitsOf({1}, {2, 3}), bitsOf({1}, {2, 3.25}), {0, 0}),
            "in 1 values of lse, elements 1 to 1: 3.25 instead of 3 at 1, 3.25 instead of 3 at 1");
}

}  // namespace
}  // namespace tilewright::conformance
