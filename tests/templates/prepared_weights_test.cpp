// Weights prepared once: where they are made, what they take, that their layout follows from format, n and k alone, and
// that calls that are given them do not make them again. That their bits are right is the conformance suite's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <compare>
#include <cstring>
#include <map>
#include <set>

#include "templates/template.h"
#include "tests/templates/lossy_plans.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::Key;

/// Calls `body(template, problem, configuration)` on every plan that prepares weights; returns their templates' ids.
template <typename Body>
std::set<std::string_view> forEachPlan(const LinearShape& shape, Body&& body) {
  std::set<std::string_view> ids;
  forEachLossyPlan(shape, [&](const Template& each, const Problem& problem, const Configuration& configuration) {
    if (each.preparedBytes(problem, device(), configuration) == 0) return;
    ids.insert(each.id());
    body(each, problem, configuration);
  });
  return ids;
}

Problem preparedOf(Problem problem) {
  problem.linear.prepared = true;
  return problem;
}

TEST(PreparedWeights, lieInTheWorkspaceUnlessTheCallerKeepsThem) {
  const auto ids =
      forEachPlan({.n = 1638, .k = 14336, .m = 133},
                  [](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
                    const std::int64_t bytes = kernelTemplate.preparedBytes(problem, device(), configuration);
                    EXPECT_EQ(bytes, kernelTemplate.preparedBytes(preparedOf(problem), device(), configuration));
                    EXPECT_EQ(kernelTemplate.workspaceBytes(problem, device(), configuration),
                              kernelTemplate.workspaceBytes(preparedOf(problem), device(), configuration) + bytes)
                        << kernelTemplate.id() << " " << configuration.text();
                  });
  EXPECT_TRUE(ids.contains("q4k_linear.fused_sm90") && ids.contains("q4k_linear.two_pass_sm90"));
}

TEST(PreparedWeights, ofTwoPassesAreTheWeightsInBytes) {
  const LinearShape shape{.n = 1638, .k = 14336, .m = 133};
  int plans = 0;
  forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
    const std::int64_t bytes = kernelTemplate.preparedBytes(problem, device(), configuration);
    const bool isTwoPass = kernelTemplate.id() == "q4k_linear.two_pass_sm90";
    plans += isTwoPass;
    // Beside two numbers a row, padded for the highest tile.
    const std::int64_t values = isTwoPass ? shape.n * shape.k : 0, numbers = 2 * 4 * (shape.n + 3840);
    EXPECT_GE(bytes, values + 2 * 4 * shape.n) << configuration.text();
    EXPECT_LE(bytes, values + numbers + 256) << configuration.text();
  });
  EXPECT_GT(plans, 10);
}

TEST(PreparedWeights, areMadeByOneKernelAheadOfACallWithoutThem) {
  const LinearShape shape{.n = 1024, .k = 4096, .m = 133};
  forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
    const Operands operands{
        .linear = {.x = at(0x1000), .xStride = shape.k, .w = at(0x2000), .out = at(0x3000), .outStride = shape.n}};
    LaunchList with, without, preparation;
    kernelTemplate.encode(preparedOf(problem), device(), configuration, operands, at(0x100000), at(0x200000), with);
    kernelTemplate.encode(problem, device(), configuration, operands, at(0x100000), nullptr, without);
    kernelTemplate.encodePreparation(problem, device(), configuration, operands, at(0x200000), preparation);
    ASSERT_EQ(preparation.launches().size(), 1U);
    ASSERT_EQ(without.launches().size(), with.launches().size() + 1);
    const Launch& alone = preparation.launches().front();
    const Launch& within = without.launches().front();
    EXPECT_EQ(within.kernel, alone.kernel) << kernelTemplate.id() << " " << configuration.text();
    EXPECT_EQ(within.grid.x, alone.grid.x);
    EXPECT_NE(with.launches().front().kernel, alone.kernel);
    // What follows may not start before the weights are there.
    EXPECT_FALSE(without.launches()[1].programmaticDependent);
  });
}

/// The geometry and arguments of launches, as bytes.
std::string textOf(const LaunchList& launches) {
  std::string text;
  for (const Launch& launch : launches.launches()) {
    text += fmt::format("{} {} {} {}:", launch.kernel, launch.grid.x, launch.block.x, launch.sharedBytes);
    for (int i = 0; i < launch.arguments.count(); ++i) {
      for (int j = 0; j < launch.arguments.slotBytes(i); ++j) {
        text += fmt::format("{:02x}", static_cast<unsigned>(launch.arguments.slot(i)[j]));
      }
    }
  }
  return text;
}

TEST(PreparedWeights, oneFormatIsOneLayoutForAllPlans) {
  for (const std::int64_t n : {37, 1024, 5000}) {
    for (const std::int64_t k : {256, 14336}) {
      std::map<std::string, std::pair<std::int64_t, std::string>> layouts;
      int plans = 0;
      for (const std::int64_t m : {1, 16, 133, 512, 4097}) {
        forEachPlan({.n = n, .k = k, .m = m}, [&](const Template& kernelTemplate, const Problem& problem,
                                                  const Configuration& configuration) {
          for (const Problem& each : {problem, preparedOf(problem)}) {
            LaunchList launches;
            kernelTemplate.encodePreparation(each, device(), configuration, {.linear = {.w = at(0x2000)}}, at(0x200000),
                                             launches);
            ASSERT_EQ(launches.launches().size(), 1U);
            const std::pair layout{kernelTemplate.preparedBytes(each, device(), configuration), textOf(launches)};
            const std::string format(kernelTemplate.preparedFormat(each, device(), configuration));
            const auto [known, isNew] = layouts.try_emplace(format, layout);
            ASSERT_EQ(known->second, layout) << format << " of " << configuration.text() << ", m = " << m;
            EXPECT_EQ(layout.first % 256, 0);
            ++plans;
          }
        });
      }
      EXPECT_THAT(layouts, ElementsAre(Key("bounds"), Key("bounds+e4m3"), Key("bounds+s8")));
      EXPECT_GT(plans, 1000);
    }
  }
}

TEST(PreparedWeights, aLongerFormatBeginsWithTheShorterOnes) {
  // Where a preparation writes bounds, their inverses and values, behind its start; 0: no values.
  struct Places {
    std::uintptr_t bounds, inverses, values;
    auto operator<=>(const Places&) const = default;
  };
  const LinearShape shape{.n = 5000, .k = 4096, .m = 133};
  std::map<std::string_view, Places> places;
  std::map<std::string_view, std::int64_t> bytes;
  forEachPlan(shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
    LaunchList launches;
    kernelTemplate.encodePreparation(problem, device(), configuration, {.linear = {.w = at(0x2000)}}, at(0x200000),
                                     launches);
    const KernelArguments& arguments = launches.launches().front().arguments;
    const auto placeAt = [](const std::byte* argument) {
      std::uintptr_t address = 0;
      std::memcpy(&address, argument, sizeof(address));
      return address - 0x200000;
    };
    const auto place = [&](int slot) { return placeAt(arguments.slot(slot)); };
    const std::string_view format = kernelTemplate.preparedFormat(problem, device(), configuration);
    const bool hasValues = format != "bounds";  // the fourth argument is then a pointer, not n
    const Places found{place(1), place(2), hasValues ? place(3) : 0};
    EXPECT_EQ(places.try_emplace(format, found).first->second, found) << configuration.text();
    // The product's last argument begins with the addresses of bounds and inverses.
    LaunchList with;
    kernelTemplate.encode(preparedOf(problem), device(), configuration,
                          {.linear = {.x = at(0x1000), .xStride = shape.k, .out = at(0x3000), .outStride = shape.n}},
                          at(0x100000), at(0x200000), with);
    const KernelArguments& product = with.launches().back().arguments;
    const std::byte* const last = product.slot(product.count() - 1);
    EXPECT_EQ(placeAt(last), found.bounds) << configuration.text();
    EXPECT_EQ(placeAt(last + sizeof(void*)), found.inverses) << configuration.text();
    bytes[format] = kernelTemplate.preparedBytes(problem, device(), configuration);
  });
  ASSERT_THAT(places, ElementsAre(Key("bounds"), Key("bounds+e4m3"), Key("bounds+s8")));
  const Places& alone = places["bounds"];
  EXPECT_EQ(alone.bounds, 0U);
  for (const std::string_view format : {"bounds+e4m3", "bounds+s8"}) {
    EXPECT_TRUE(servesPrepared(format, "bounds"));
    EXPECT_EQ(places[format].bounds, alone.bounds) << format;
    EXPECT_EQ(places[format].inverses, alone.inverses) << format;
    // The next part begins where plans of bounds alone stop reading.
    EXPECT_EQ(places[format].values, static_cast<std::uintptr_t>(bytes["bounds"])) << format;
    EXPECT_EQ(bytes[format], bytes["bounds"] + shape.n * shape.k) << format;
  }
}

TEST(PreparedWeights, haveAFormatExactlyWhereTheyHaveBytes) {
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    const Problem problem{.operation = Operation::kQ4kLinear,
                          .linear = {.n = 4096, .k = 4096, .m = 16, .precision = precision}};
    int without = 0;
    for (const Template* each : allTemplates()) {
      if (each->refuses(problem, device())) continue;
      for (const Configuration& configuration : enumerateConfigurations(*each, problem, device())) {
        const bool isEmpty = each->preparedFormat(problem, device(), configuration).empty();
        EXPECT_EQ(isEmpty, each->preparedBytes(problem, device(), configuration) == 0)
            << each->id() << " " << configuration.text();
        without += isEmpty;
      }
    }
    EXPECT_GT(without, 0) << precisionName(precision);
  }
}

TEST(PreparedWeights, serveTheSameFormatAndThoseThatBeginIt) {
  EXPECT_TRUE(servesPrepared("bounds", "bounds"));
  EXPECT_TRUE(servesPrepared("bounds+s8", "bounds"));
  EXPECT_FALSE(servesPrepared("bounds", "bounds+s8"));
  EXPECT_FALSE(servesPrepared("bounds+e4m3", "bounds+s8"));
  EXPECT_FALSE(servesPrepared("bounds+s80", "bounds+s8")) << "parts count as a whole";
  EXPECT_FALSE(servesPrepared("", "bounds"));
}

/// A rank-2 map of a launch, over W or what was made of it.
const TensorMap& weightMap(const LaunchList& launches) {
  return launches.launches().back().arguments.maps().front();
}

TEST(PreparedWeights, areReadWhereTheyWereMade) {
  const LinearShape shape{.n = 1024, .k = 4096, .m = 133};
  const auto ids = forEachPlan(
      shape, [&](const Template& kernelTemplate, const Problem& problem, const Configuration& configuration) {
        if (kernelTemplate.id() != "q4k_linear.two_pass_sm90") return;
        const Operands operands{
            .linear = {.x = at(0x1000), .xStride = shape.k, .w = at(0x2000), .out = at(0x3000), .outStride = shape.n}};
        LaunchList with, preparation;
        kernelTemplate.encode(preparedOf(problem), device(), configuration, operands, at(0x100000), at(0x200000), with);
        kernelTemplate.encodePreparation(problem, device(), configuration, operands, at(0x200000), preparation);
        const Launch& expand = preparation.launches().front();
        const void* values = nullptr;  // the fourth argument: w, bounds, inverses, values
        std::memcpy(&values, expand.arguments.slot(3), sizeof(values));
        EXPECT_EQ(weightMap(with).base, values);
        EXPECT_EQ(weightMap(with).size[0], 4096U);
        EXPECT_EQ(weightMap(with).size[1], 1024U);
      });
  EXPECT_TRUE(ids.contains("q4k_linear.two_pass_sm90"));
}

}  // namespace
}  // namespace tilewright
