// Which problem to tune next, and what still fits the budget.
//
// A problem's value is the time that tuning it is expected to save: count x predicted time x expected gain. Its cost is
// the time that its sweep is expected to take: operands, compilation, and runs of every candidate. Within an operation
// the highest value per cost goes first; between operations the one that has spent the least goes first, so that a
// short budget brings winners for all of them.
//
// Predictions come from the templates' cost models, which are right about order and wrong about scale. The schedule
// corrects them by what was measured: the geometric mean of measured / predicted per template.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tilewright::autotune {

struct ScheduledProblem {
  Problem problem;
  double count = 1;                ///< calls per forward pass; weighs the value
  std::string use;                 ///< what calls it; carried along
  std::string defaultTemplate;     ///< id, for the calibration
  double defaultMicroseconds = 0;  ///< predicted, uncorrected
  double expectedGain = 0;         ///< share of the default's time that tuning may save, 0 to 1
};

/// Measured over predicted, per template; 1 until something was measured.
class Calibration {
 public:
  void add(std::string_view templateId, double predictedMicroseconds, double measuredMicroseconds);
  double factor(std::string_view templateId) const;

 private:
  struct Sum {
    double logarithms = 0;
    int count = 0;
  };
  std::map<std::string, Sum, std::less<>> sums_;
};

class Schedule {
 public:
  /// Seconds that tuning a problem is expected to take when a run of its default takes `runSeconds`.
  using Cost = std::function<double(const ScheduledProblem& problem, double runSeconds)>;

  Schedule(std::vector<ScheduledProblem> problems, Cost cost) : open_(std::move(problems)), cost_(std::move(cost)) {}

  bool empty() const { return open_.empty(); }
  const std::vector<ScheduledProblem>& open() const { return open_; }
  Calibration& calibration() { return calibration_; }

  /// Seconds that the problem is expected to take, and seconds that one run of its default takes.
  double costSeconds(const ScheduledProblem& problem) const;
  double runSeconds(const ScheduledProblem& problem) const;
  /// Expected cost of everything that is open.
  double remainingSeconds() const;

  /// The next problem whose expected cost fits `seconds`, or null. Valid until the next call.
  const ScheduledProblem* peek(double seconds) const;
  /// Takes it out; the schedule stays as it is when there is none.
  std::optional<ScheduledProblem> take(double seconds);
  /// Charges the operation with what a problem really took.
  void spent(Operation operation, double seconds) { spent_[operation] += seconds; }

 private:
  std::vector<ScheduledProblem> open_;
  Cost cost_;
  Calibration calibration_;
  std::map<Operation, double> spent_;
};

}  // namespace tilewright::autotune
