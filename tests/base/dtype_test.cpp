// Conversions of 16-bit floats: exact one way, rounded to nearest even the other way.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tilewright {
namespace {

TEST(DType, everyHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<std::uint16_t>(bits)};
    const float value = toFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(toFloat(toF16(value))));
      EXPECT_NE(toF16(value).bits & 0x200, 0) << "a NaN must come out quiet";
    } else {
      EXPECT_EQ(toF16(value).bits, bits);
    }
  }
}

TEST(DType, halvesMeanWhatTheFormatSays) {
  EXPECT_EQ(toFloat(F16{0x3c00}), 1.0F);
  EXPECT_EQ(toFloat(F16{0xc000}), -2.0F);
  EXPECT_EQ(toFloat(F16{0x2800}), 0.03125F);
  EXPECT_EQ(toFloat(F16{0x0001}), 0x1p-24F);
  EXPECT_EQ(toFloat(F16{0x83ff}), -1023 * 0x1p-24F);
  EXPECT_EQ(toFloat(F16{0x7bff}), 65504.0F);
  EXPECT_EQ(toFloat(F16{0xfc00}), -std::numeric_limits<float>::infinity());
}

// The nearest neighbour by exhaustive comparison in double, ties to the even bit pattern.
std::uint16_t nearestHalf(double value) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double candidate = std::fabs(toFloat(F16{static_cast<std::uint16_t>(bits)}) - value);
    if (candidate < distance || (candidate == distance && bits % 2 == 0)) {
      best = static_cast<std::uint16_t>(bits), distance = candidate;
    }
  }
  return best;
}

TEST(DType, roundsToTheNearestHalfTiesToEven) {
  for (const float value : {1.0F + 0x1p-11F, 1.0F + 3 * 0x1p-11F, 1.0F + 0x1p-11F + 0x1p-20F, 0.1F, 3.14159F, 0x1p-25F,
                            0x1.8p-25F, 0x1p-14F - 0x1p-26F, 1.5F * 0x1p-24F, 2.5F * 0x1p-24F, 65519.0F, 1234.5F}) {
    EXPECT_EQ(toF16(value).bits, nearestHalf(value)) << value;
    EXPECT_EQ(toF16(-value).bits, nearestHalf(value) | 0x8000) << -value;
  }
  EXPECT_EQ(toF16(65520.0F).bits, 0x7c00);  // the tie goes to the even one, which is infinity
  EXPECT_EQ(toF16(1e30F).bits, 0x7c00);
}

TEST(DType, bf16RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(toBf16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(toBf16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);
  EXPECT_EQ(toBf16(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);
  EXPECT_EQ(toBf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  // A NaN whose payload lies only in the bits that are cut must not become infinity.
  EXPECT_TRUE(std::isnan(toFloat(toBf16(std::bit_cast<float>(0x7f800001)))));
}

}  // namespace
}  // namespace tilewright
