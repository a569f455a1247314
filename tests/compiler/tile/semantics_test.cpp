// What the lowered operations compute, by running small programs on every level of x86-64 that this CPU has: the
// expansions of exp, log and narrow floats against the standard library, and each op against its description.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/hash.h"
#include "compiler/tile/compile_program.h"
#include "compiler/tile/tile_compiler.h"

namespace tilewright::tile {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class TileSemantics : public testing::TestWithParam<const char*> {
 protected:
  /// Compiles a program for the target, and runs it once with the given slots.
  void run(const std::function<void(Program&)>& write, const std::vector<std::uint64_t>& slots) {
    Program program("entry", {});
    write(program);
    auto bytes = compileProgram(program, GetParam(), CpuOptions{});
    ASSERT_TRUE(bytes) << bytes.error().message << "\n" << bytes.error().log;
    Binary binary;
    binary.bytes = std::move(*bytes);
    binary.hash = sha256Hex(binary.bytes);
    binary.target = GetParam();
    const auto loader = createHostLoader();
    ASSERT_TRUE(loader) << loader.error().message;
    auto code = (*loader)->load(binary);
    if (!code && code.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << code.error().message;
    ASSERT_TRUE(code) << code.error().message;
    const auto entry = (*code)->find("entry");
    ASSERT_TRUE(entry) << entry.error().message;
    (*entry)(slots.data(), 0, 0, 0);
  }

  /// One f32 tile through a function of tiles.
  std::vector<float> mapped(const std::vector<float>& in, const std::function<Value(Program&, Value)>& function) {
    std::vector<float> out(in.size(), -1);
    const auto size = static_cast<std::int64_t>(in.size());
    run(
        [&](Program& p) {
          const Value from = p.pointerArgument(), to = p.pointerArgument();
          const Value x = p.load(Element::kF32, {size}, {from, {0}, {size}, {1}});
          p.store(function(p, x), {to, {0}, {size}, {1}});
        },
        {address(in), address(out)});
    return out;
  }

  template <typename T>
  static std::uint64_t address(const std::vector<T>& values) {
    return reinterpret_cast<std::uint64_t>(values.data());
  }
};

/// Units in the last place between a result and the exact value.
double ulps(float got, double exact) {
  const auto near = static_cast<float>(exact);
  const double unit = std::fabs(static_cast<double>(std::nextafter(near, kInfinity)) - near);
  return std::fabs(got - exact) / unit;
}

TEST_P(TileSemantics, expIsWithinTwoUnits) {
  std::vector<float> in;
  for (float x = -86.5f; x < 88.7f; x += 0.0137f) in.push_back(x);
  in.resize(in.size() / 16 * 16 + 5);  // a tail
  const auto out = mapped(in, [](Program& p, Value x) { return p.exp(x); });
  if (IsSkipped()) return;
  double worst = 0;
  for (std::size_t i = 0; i < in.size(); ++i) worst = std::max(worst, ulps(out[i], std::exp(double{in[i]})));
  // Two roundings of the argument's reduction, one of the series' last sum: below 2 units.
  EXPECT_LT(worst, 2);

  const auto special =
      mapped({-kInfinity, kInfinity, NAN, 0, -0.0f, -1e30f, 1e30f, 89}, [](Program& p, Value x) { return p.exp(x); });
  EXPECT_EQ(special[0], 0);
  EXPECT_EQ(special[1], kInfinity);
  EXPECT_TRUE(std::isnan(special[2]));
  EXPECT_EQ(special[3], 1);
  EXPECT_EQ(special[4], 1);
  EXPECT_EQ(special[5], 0);
  EXPECT_EQ(special[6], kInfinity);
  EXPECT_EQ(special[7], kInfinity);
}

TEST_P(TileSemantics, logIsWithinTwoUnits) {
  std::vector<float> in;
  for (int exponent = -148; exponent < 128; ++exponent) {
    for (const float m : {1.0f, 1.1f, 1.41421f, 1.41422f, 1.7f, 1.99999f}) in.push_back(std::ldexp(m, exponent));
  }
  for (float x = 0.5f; x < 2; x += 0.0011f) in.push_back(x);
  const auto out = mapped(in, [](Program& p, Value x) { return p.log(x); });
  if (IsSkipped()) return;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double exact = std::log(double{in[i]});
    // Near 1 the two parts of e ln 2 and the series cancel nothing, for e is 0 there.
    EXPECT_LT(exact == 0 ? std::fabs(out[i]) : ulps(out[i], exact), 2) << in[i];
  }
  const auto special =
      mapped({0, -0.0f, kInfinity, -1, NAN, -kInfinity, 1, 1}, [](Program& p, Value x) { return p.log(x); });
  EXPECT_EQ(special[0], -kInfinity);
  EXPECT_EQ(special[1], -kInfinity);
  EXPECT_EQ(special[2], kInfinity);
  EXPECT_TRUE(std::isnan(special[3]));
  EXPECT_TRUE(std::isnan(special[4]));
  EXPECT_TRUE(std::isnan(special[5]));
  EXPECT_EQ(special[6], 0);
}

TEST_P(TileSemantics, bf16RoundsToNearestEven) {
  // Every sign and exponent with mantissas around the ties.
  std::vector<float> in;
  for (std::uint32_t upper = 0; upper < 0x10000; upper += 0x40) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      for (const std::uint32_t last : {0u, 1u}) in.push_back(std::bit_cast<float>((upper | last) << 16 | lower));
    }
  }
  const auto size = static_cast<std::int64_t>(in.size());
  std::vector<std::uint16_t> narrow(in.size());
  std::vector<float> wide(in.size());
  run(
      [&](Program& p) {
        const Value from = p.pointerArgument(), to = p.pointerArgument(), back = p.pointerArgument();
        p.loop(0, size, 32, {}, [&](Value at, std::span<const Value>) {
          const Value x = p.convert(p.load(Element::kF32, {32}, {from, {at}, {size}, {1}}), Element::kBf16);
          p.store(x, {to, {at}, {size}, {1}});
          p.store(p.convert(x, Element::kF32), {back, {at}, {size}, {1}});
          return std::vector<Value>{};
        });
      },
      {address(in), address(narrow), address(wide)});
  if (IsSkipped()) return;
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(narrow[i], toBf16(in[i]).bits) << std::bit_cast<std::uint32_t>(in[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::uint32_t{narrow[i]} << 16);
  }
}

TEST_P(TileSemantics, f16WidensExactly) {
  std::vector<std::uint16_t> in(0x10000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  std::vector<float> out(in.size());
  run(
      [&](Program& p) {
        const Value from = p.pointerArgument(), to = p.pointerArgument();
        p.loop(0, 0x10000, 64, {}, [&](Value at, std::span<const Value>) {
          const Value x = p.load(Element::kF16, {64}, {from, {at}, {0x10000}, {1}});
          p.store(p.convert(x, Element::kF32), {to, {at}, {0x10000}, {1}});
          return std::vector<Value>{};
        });
      },
      {address(in), address(out)});
  if (IsSkipped()) return;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const int exponent = (in[i] >> 10) & 31, mantissa = in[i] & 1023;
    double exact = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) exact = mantissa == 0 ? kInfinity : NAN;
    if ((in[i] & 0x8000) != 0) exact = -exact;
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(out[i])) << in[i];
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(static_cast<float>(exact))) << in[i];
    }
  }
}

TEST_P(TileSemantics, blocksAreMaskedOnEverySide) {
  // An 11 x 13 matrix with gaps, read in 4 x 8 blocks whose last ones stick out, rows or columns adjacent.
  constexpr std::int64_t kRows = 11, kColumns = 13;
  for (const auto& [rowStride, columnStride] : {std::pair<std::int64_t, std::int64_t>{17, 1}, {1, 12}, {40, 3}}) {
    std::vector<float> in(512, NAN), out(512, -7), sums(16, 0);
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        in[i * rowStride + j * columnStride] = static_cast<float>(100 * i + j);
      }
    }
    run(
        [](Program& p) {
          const Value from = p.pointerArgument(), to = p.pointerArgument(), sum = p.pointerArgument();
          const Value rs = p.indexArgument(), cs = p.indexArgument();
          p.loop(0, kRows, 4, {}, [&](Value i, std::span<const Value>) {
            p.loop(0, kColumns, 8, {}, [&](Value j, std::span<const Value>) {
              const Value x = p.load(Element::kF32, {4, 8}, {from, {i, j}, {kRows, kColumns}, {rs, cs}});
              p.store(x + p.full({4, 8}, 1), {to, {i, j}, {kRows, kColumns}, {rs, cs}});
              // Elements outside are zero, so the sums of whole rows may take them in.
              const Value before = p.load(Element::kF32, {4}, {sum, {i}, {16}, {1}});
              p.store(before + p.sumOfRows(x), {sum, {i}, {16}, {1}});
              return std::vector<Value>{};
            });
            return std::vector<Value>{};
          });
        },
        {address(in), address(out), address(sums), static_cast<std::uint64_t>(rowStride),
         static_cast<std::uint64_t>(columnStride)});
    if (IsSkipped()) return;
    std::vector<float> expected(512, -7);
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        expected[i * rowStride + j * columnStride] = static_cast<float>(100 * i + j + 1);
      }
      EXPECT_EQ(sums[i], static_cast<float>(kColumns * 100 * i + 78));
    }
    EXPECT_EQ(out, expected);
  }
}

TEST_P(TileSemantics, fieldsUnpackInTheOrderOfTheFormat) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> bytes(3 * 12), nibbles(3 * 24), interleaved(3 * 24), scales(3 * 8), minimums(3 * 8);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  run(
      [](Program& p) {
        const Value from = p.pointerArgument();
        const Value x = p.load(Element::kI8, {3, 12}, {from, {0, 0}, {3, 12}, {12, 1}});
        const auto [s, m] = p.unpack6(x);
        const Shape shape{3, 24};
        for (const Value& tile : {p.unpack4(x, 4), p.unpack4(x, 1)}) {
          p.store(tile, {p.pointerArgument(), {0, 0}, {3, 24}, {24, 1}});
        }
        for (const Value& tile : {s, m}) p.store(tile, {p.pointerArgument(), {0, 0}, {3, 8}, {8, 1}});
      },
      {address(bytes), address(nibbles), address(interleaved), address(scales), address(minimums)});
  if (IsSkipped()) return;
  for (int row = 0; row < 3; ++row) {
    const std::uint8_t* b = bytes.data() + 12 * row;
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(nibbles[24 * row + i / 4 * 8 + i % 4], b[i] & 15);
      EXPECT_EQ(nibbles[24 * row + i / 4 * 8 + 4 + i % 4], b[i] >> 4);
      EXPECT_EQ(interleaved[24 * row + 2 * i], b[i] & 15);
      EXPECT_EQ(interleaved[24 * row + 2 * i + 1], b[i] >> 4);
    }
    for (int j = 0; j < 8; ++j) {
      const int scale = j < 4 ? b[j] & 63 : (b[j + 4] & 15) | (b[j - 4] >> 6) << 4;
      const int minimum = j < 4 ? b[j + 4] & 63 : (b[j + 4] >> 4) | (b[j] >> 6) << 4;
      EXPECT_EQ(scales[8 * row + j], scale);
      EXPECT_EQ(minimums[8 * row + j], minimum);
    }
  }
}

TEST_P(TileSemantics, carriedTilesMayChangePlaces) {
  std::vector<float> out(32, -1);
  run(
      [](Program& p) {
        const Value to = p.pointerArgument();
        const Shape shape{16};
        const auto result = p.loop(0, 3, 1, {p.full(shape, 1), p.full(shape, 2)},
                                   [&](Value, std::span<const Value> c) { return std::vector{c[1], c[0] + c[1]}; });
        p.store(result[0], {to, {0}, {16}, {1}});
        p.store(result[1], {to, {16}, {32}, {1}});
      },
      {address(out)});
  if (IsSkipped()) return;
  // (1, 2), (2, 3), (3, 5), (5, 8)
  EXPECT_EQ(out[0], 5);
  EXPECT_EQ(out[31], 8);
}

INSTANTIATE_TEST_SUITE_P(Targets, TileSemantics, testing::Values("x86-64", "x86-64-v3", "x86-64-v4"),
                         [](const testing::TestParamInfo<const char*>& each) {
                           std::string name = each.param;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace tilewright::tile
