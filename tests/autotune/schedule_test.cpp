// Order of problems, calibration of predictions, and what fits a budget.
#include "autotune/schedule.h"

#include <gtest/gtest.h>

namespace tilewright::autotune {
namespace {

ScheduledProblem problemOf(Operation operation, double microseconds, double count = 1) {
  ScheduledProblem problem;
  problem.problem.operation = operation;
  problem.count = count;
  problem.defaultTemplate = "t";
  problem.defaultMicroseconds = microseconds;
  problem.expectedGain = 0.5;
  return problem;
}

Schedule scheduleOf(std::vector<ScheduledProblem> problems) {
  // A second of setup, and a hundred runs.
  return Schedule(std::move(problems), [](const ScheduledProblem&, double runSeconds) { return 1 + 100 * runSeconds; });
}

std::vector<double> drain(Schedule& schedule, double seconds) {
  std::vector<double> order;
  while (const auto problem = schedule.take(seconds)) order.push_back(problem->defaultMicroseconds);
  return order;
}

TEST(Schedule, mostSavedPerSecondOfTuningFirst) {
  Schedule schedule = scheduleOf(
      {problemOf(Operation::kLinear, 1000), problemOf(Operation::kLinear, 10), problemOf(Operation::kLinear, 1000, 4)});
  EXPECT_EQ(drain(schedule, 100), (std::vector<double>{1000, 1000, 10}));
}

TEST(Schedule, cheapProblemsGoBeforeDearOnes) {
  Schedule schedule = scheduleOf({problemOf(Operation::kLinear, 1e5), problemOf(Operation::kLinear, 10),
                                  problemOf(Operation::kLinear, 2e5), problemOf(Operation::kLinear, 1000)});
  schedule.setCheap(2);
  EXPECT_EQ(drain(schedule, 100), (std::vector<double>{1000, 10, 1e5, 2e5}));
}

TEST(Schedule, operationsShareTheBudget) {
  Schedule schedule = scheduleOf(
      {problemOf(Operation::kLinear, 5000), problemOf(Operation::kLinear, 4000), problemOf(Operation::kAttention, 20)});
  EXPECT_EQ(schedule.take(100)->defaultMicroseconds, 5000);
  schedule.spent({.operation = Operation::kLinear}, 2);
  EXPECT_EQ(schedule.take(100)->problem.operation, Operation::kAttention);
}

TEST(Schedule, decodingAndPrefillShareItToo) {
  ScheduledProblem prefill = problemOf(Operation::kLinear, 5000), other = problemOf(Operation::kLinear, 4000);
  prefill.problem.linear.m = other.problem.linear.m = 512;
  ScheduledProblem decode = problemOf(Operation::kLinear, 10);
  decode.problem.linear.m = 1;
  Schedule schedule = scheduleOf({prefill, other, decode});
  EXPECT_EQ(schedule.take(100)->problem.linear.m, 512);
  schedule.spent(prefill.problem, 2);
  EXPECT_EQ(schedule.take(100)->problem.linear.m, 1);
}

TEST(Schedule, leavesWhatDoesNotFit) {
  Schedule schedule = scheduleOf({problemOf(Operation::kLinear, 10e6), problemOf(Operation::kLinear, 1000)});
  EXPECT_EQ(drain(schedule, 5), (std::vector<double>{1000}));
  ASSERT_EQ(schedule.open().size(), 1u);
  EXPECT_NEAR(schedule.remainingSeconds(), 1 + 100 * 10, 1e-9);
}

TEST(Schedule, measurementsCorrectPredictions) {
  Schedule schedule = scheduleOf({problemOf(Operation::kLinear, 1000)});
  schedule.calibration().add("t", 100, 400);
  schedule.calibration().add("t", 100, 1600);
  // The geometric mean of 4 and 16.
  EXPECT_NEAR(schedule.runSeconds(schedule.open()[0]), 8e-3, 1e-12);
  EXPECT_EQ(schedule.calibration().factor("another", 100), 1);
  // Of two measured scales, the nearer one counts more.
  schedule.calibration().add("two", 10, 10);
  schedule.calibration().add("two", 10000, 100000);
  EXPECT_LT(schedule.calibration().factor("two", 12), 1.3);
  EXPECT_GT(schedule.calibration().factor("two", 9000), 7);
}

TEST(Schedule, postponedProblemsAreCostedByWhatTheyTook) {
  Schedule schedule = scheduleOf({problemOf(Operation::kLinear, 1000)});
  auto problem = schedule.take(100);
  ASSERT_TRUE(problem);
  schedule.postpone(*problem, 2);
  EXPECT_FALSE(schedule.take(100)) << "201 s are expected";
  EXPECT_TRUE(schedule.take(300));
}

}  // namespace
}  // namespace tilewright::autotune
