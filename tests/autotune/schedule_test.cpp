// Order of problems, calibration of predictions, and what fits a budget.
#include "autotune/schedule.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

ScheduledProblem problemOf(Operation operation, double microseconds, double count = 1) {
  ScheduledProblem problem;
  problem.problem.operation = operation;
  problem.count = count;
  problem.defaultTemplate = "t";
  problem.defaultMicroseconds = microseconds;
  problem.expectedGain = 0.5;
  problem.setupSeconds = 1;
  problem.runs = 100;
  return problem;
}

std::vector<double> drain(Schedule& schedule, double seconds) {
  std::vector<double> order;
  ScheduledProblem problem;
  while (schedule.next(seconds, problem)) order.push_back(problem.defaultMicroseconds);
  return order;
}

TEST(Schedule, mostSavedPerSecondOfTuningFirst) {
  Schedule schedule(
      {problemOf(Operation::kLinear, 1000), problemOf(Operation::kLinear, 10), problemOf(Operation::kLinear, 1000, 4)});
  EXPECT_EQ(drain(schedule, 100), (std::vector<double>{1000, 1000, 10}));
}

TEST(Schedule, operationsShareTheBudget) {
  Schedule schedule(
      {problemOf(Operation::kLinear, 5000), problemOf(Operation::kLinear, 4000), problemOf(Operation::kAttention, 20)});
  ScheduledProblem problem;
  ASSERT_TRUE(schedule.next(100, problem));
  EXPECT_EQ(problem.defaultMicroseconds, 5000);
  schedule.spent(Operation::kLinear, 2);
  ASSERT_TRUE(schedule.next(100, problem));
  EXPECT_EQ(problem.problem.operation, Operation::kAttention);
}

TEST(Schedule, leavesWhatDoesNotFit) {
  Schedule schedule({problemOf(Operation::kLinear, 10e6), problemOf(Operation::kLinear, 1000)});
  EXPECT_EQ(drain(schedule, 5), (std::vector<double>{1000}));
  ASSERT_EQ(schedule.open().size(), 1u);
  EXPECT_NEAR(schedule.remainingSeconds(), 1 + 100 * 10, 1e-9);
}

TEST(Schedule, measurementsCorrectPredictions) {
  Schedule schedule({problemOf(Operation::kLinear, 1000)});
  schedule.calibration().add("t", 100, 400);
  schedule.calibration().add("t", 100, 1600);
  // The geometric mean of 4 and 16.
  EXPECT_NEAR(schedule.runSeconds(schedule.open()[0]), 8e-3, 1e-12);
  EXPECT_EQ(schedule.calibration().factor("another"), 1);
}

}  // namespace
}  // namespace tilewright
