// From problems to candidates: refusals are named, pruning keeps what must be kept, and a seed decides the rest.
#include "autotune/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/autotune/fake_template.h"

namespace tilewright::autotune {
namespace {

const Problem kProblem{.operation = Operation::kLinear, .linear = {.n = 64, .k = 64, .m = 64}};
const DeviceInfo kDevice{.name = "fake", .target = "x86-64"};

std::vector<std::string> texts(const SearchSpace& space) {
  std::vector<std::string> all;
  for (const Candidate& each : space.candidates)
    all.push_back(fmt::format("{} {}", each.kernelTemplate->id(), each.configuration.text()));
  return all;
}

TEST(SearchSpace, namesWhatItRefused) {
  FakeTemplate good("linear.good", 1), bad("linear.bad", 1), other("attention.other", 1, Operation::kAttention);
  bad.refusal = {"head_dim", "head_dim is 96, must be 64"};
  const Template* templates[] = {&good, &bad, &other};
  const auto space = buildSearchSpace(kProblem, kDevice, templates, {});
  ASSERT_TRUE(space);
  EXPECT_EQ(space->accepted, 7);
  ASSERT_EQ(space->refusedTemplates.size(), 1u) << "templates of other operations are no refusals";
  EXPECT_EQ(space->refusedTemplates[0].refusal.constraint, "head_dim");
  ASSERT_EQ(space->refusedConfigurations.size(), 1u);
  EXPECT_EQ(space->refusedConfigurations[0].constraint, "shared_memory");
  EXPECT_EQ(space->refusedConfigurations[0].count, 1);

  const Template* onlyBad[] = {&bad};
  const auto none = buildSearchSpace(kProblem, kDevice, onlyBad, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, testing::HasSubstr("linear.bad: head_dim is 96"));
}

TEST(SearchSpace, prunesByTheCostModelAndKeepsEveryDefault) {
  FakeTemplate slow("linear.slow", 10), fast("linear.fast", 1);
  const Template* templates[] = {&slow, &fast};
  const auto space = buildSearchSpace(kProblem, kDevice, templates, {.cap = 4});
  ASSERT_TRUE(space);
  // Both defaults and the two best predicted, all of the fast template, in the fixed order.
  EXPECT_EQ(texts(*space), (std::vector<std::string>{"linear.slow tile=2 stages=1", "linear.fast tile=2 stages=1",
                                                     "linear.fast tile=4 stages=1", "linear.fast tile=8 stages=1"}));
  EXPECT_EQ(space->defaultCandidate, 1) << "the default plan is the fast template's default";
  EXPECT_EQ(probeOrder(space->candidates), (std::vector<int>{3, 2, 1, 0}));
}

TEST(SearchSpace, everyTemplateKeepsAFairShare) {
  FakeTemplate slow("linear.slow", 10), fast("linear.fast", 1);
  const Template* templates[] = {&slow, &fast};
  const auto space = buildSearchSpace(kProblem, kDevice, templates, {.cap = 10});
  ASSERT_TRUE(space);
  EXPECT_EQ(space->candidates.size(), 10u);
  EXPECT_GE(
      std::ranges::count_if(space->candidates, [&](const Candidate& each) { return each.kernelTemplate == &slow; }), 2);
}

TEST(SearchSpace, seedDecidesTheRandomShare) {
  FakeTemplate only("linear.only", 1);
  const Template* templates[] = {&only};
  const auto first = buildSearchSpace(kProblem, kDevice, templates, {.cap = 5, .seed = 3});
  const auto again = buildSearchSpace(kProblem, kDevice, templates, {.cap = 5, .seed = 3});
  EXPECT_EQ(texts(*first), texts(*again));
  bool differs = false;
  for (std::uint64_t seed = 4; seed < 12; ++seed) {
    differs |= texts(*first) != texts(*buildSearchSpace(kProblem, kDevice, templates, {.cap = 5, .seed = seed}));
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(buildSearchSpace(kProblem, kDevice, templates, {.cap = 100})->candidates.size(), 7u);
}

TEST(SearchSpace, neighboursAreOneStepAway) {
  FakeTemplate only("linear.only", 1);
  const Candidate middle{&only, Configuration({{"tile", 4}, {"stages", 2}}), 0};
  std::vector<std::string> found;
  for (const Candidate& each : neighbours(middle, kProblem, kDevice)) found.push_back(each.configuration.text());
  // tile 8 with 2 stages is refused.
  EXPECT_EQ(found, (std::vector<std::string>{"tile=2 stages=2", "tile=4 stages=1"}));
}

}  // namespace
}  // namespace tilewright::autotune
