// The tuner's default is what the dispatcher runs when nothing was tuned, for every template of this build.
#include <gtest/gtest.h>

#include "autotune/search_space.h"
#include "runtime/dispatcher.h"

namespace tilewright::autotune {
namespace {

std::vector<Problem> manyProblems() {
  std::vector<Problem> problems;
  for (const Operation operation : {Operation::kLinear, Operation::kQ4kLinear}) {
    for (const std::int64_t m : {1, 7, 64, 512, 4096}) {
      for (const Precision precision : {Precision::kExact, Precision::kFp8, Precision::kInt8, Precision::kFast}) {
        if (operation == Operation::kLinear && precision != Precision::kExact) continue;
        problems.push_back({.operation = operation, .linear = {.n = 4096, .k = 1024, .m = m, .precision = precision}});
        problems.push_back({.operation = operation, .linear = {.n = 1000, .k = 256, .m = m, .precision = precision}});
      }
    }
  }
  for (const std::int64_t queries : {1, 16, 512}) {
    for (const std::int64_t headDim : {64, 80, 128, 256}) {
      problems.push_back(
          {.operation = Operation::kAttention,
           .attention = {
               .qHeads = 16, .kvHeads = 4, .headDim = headDim, .qLen = queries, .kvLen = 4096, .causal = true}});
    }
  }
  return problems;
}

TEST(DefaultPlan, isTheDispatchersChoiceForAnUntunedProblem) {
  int supported = 0;
  for (const char* target : {"sm_90a", "sm_80", "x86-64-v4"}) {
    const auto device = nominalDevice(target);
    ASSERT_TRUE(device);
    for (const Problem& problem : manyProblems()) {
      const auto dispatched = defaultCandidates(problem, *device);
      const auto space = buildSearchSpace(problem, *device, allTemplates(), {});
      ASSERT_EQ(space.has_value(), !dispatched.empty()) << target << " " << toJson(problem);
      if (!space) continue;
      ++supported;
      const Candidate& ours = space->candidates[space->defaultCandidate];
      EXPECT_EQ(ours.kernelTemplate, dispatched.front().kernelTemplate) << target << " " << toJson(problem);
      EXPECT_EQ(ours.configuration, dispatched.front().configuration) << target << " " << toJson(problem);
    }
  }
  EXPECT_GT(supported, 0);
}

}  // namespace
}  // namespace tilewright::autotune
