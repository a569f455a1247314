// Effort against time: thorough where runs are cheap, little where they are dear.
#include "autotune/race_plan.h"

#include <gtest/gtest.h>

namespace tilewright::autotune {
namespace {

const Problem kDecode{.operation = Operation::kLinear, .linear = {.n = 4096, .k = 4096, .m = 1}};
const Problem kPrefill{.operation = Operation::kLinear, .linear = {.n = 4096, .k = 4096, .m = 4096}};

DeviceInfo deviceOf(const char* target) {
  return nominalDevice(target).value();
}

TEST(RacePlan, slowerRunsMeanFewerOfThem) {
  double previous = 1e9;
  for (const double runSeconds : {1e-5, 1e-3, 1e-2, 1e-1, 1.0}) {
    const RacePlan plan = planRace(kPrefill, deviceOf("x86-64-v3"), Effort::kFull, runSeconds, 0, 1e9);
    EXPECT_LE(plan.runs, previous) << runSeconds;
    EXPECT_GE(plan.cap, 2) << runSeconds;
    previous = plan.runs;
  }
}

TEST(RacePlan, staysWithinWhatIsLeft) {
  const RacePlan plan = planRace(kPrefill, deviceOf("x86-64-v3"), Effort::kFull, 0.01, 0, 3);
  EXPECT_LE(plan.seconds(0.01, 0), 3);
  EXPECT_GT(planRace(kPrefill, deviceOf("x86-64-v3"), Effort::kFull, 0.01, 0, 1e9).runs, plan.runs);
}

TEST(RacePlan, higherEffortNeverTriesLess) {
  for (const double runSeconds : {1e-5, 1e-3, 1e-1}) {
    const auto runs = [&](Effort effort) {
      return planRace(kPrefill, deviceOf("x86-64-v3"), effort, runSeconds, 0, 1e9).runs;
    };
    EXPECT_LE(runs(Effort::kQuick), runs(Effort::kNormal));
    EXPECT_LE(runs(Effort::kNormal), runs(Effort::kFull));
  }
}

TEST(RacePlan, aGpuRestsLongerAfterMath) {
  const RacePlan cpu = planRace(kPrefill, deviceOf("x86-64-v3"), Effort::kNormal, 1e-4, 0, 1e9);
  EXPECT_EQ(cpu.finalRestMilliseconds, 0);
  const RacePlan prefill = planRace(kPrefill, deviceOf("sm_90a"), Effort::kNormal, 1e-4, 0, 1e9);
  EXPECT_EQ(prefill.finalRestMilliseconds, 300);
  const RacePlan decode = planRace(kDecode, deviceOf("sm_90a"), Effort::kNormal, 1e-4, 0, 1e9);
  EXPECT_LT(decode.finalRestMilliseconds, prefill.finalRestMilliseconds);
  EXPECT_GT(decode.finalRestMilliseconds, 0);
}

TEST(RacePlan, effortsHaveNames) {
  for (const Effort effort : {Effort::kQuick, Effort::kNormal, Effort::kFull}) {
    EXPECT_EQ(effortFromName(effortName(effort)), effort);
  }
  EXPECT_FALSE(effortFromName("heroic"));
}

}  // namespace
}  // namespace tilewright::autotune
