// Which problem to tune next, and what still fits the budget.
//
// A problem's value is the time that tuning it is expected to save: count x predicted time x expected gain. Its cost is
// the time that its sweep is expected to take: setup, compilation, and runs of every candidate. Within an operation the
// highest value per cost goes first; between operations the one that has spent the least goes first, so that a short
// budget brings winners for all of them.
//
// Predictions come from the templates' cost models, which are right about order and wrong about scale. The schedule
// corrects them by what was measured: the geometric mean of measured / predicted per template.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tilewright {

struct ScheduledProblem {
  Problem problem;
  double count = 1;                  ///< calls per forward pass; weighs the value
  std::string defaultTemplate;       ///< id, for the calibration
  double defaultMicroseconds = 0;    ///< predicted, uncorrected
  double expectedGain = 0;           ///< share of the default's time that tuning may save, 0 to 1
  double setupSeconds = 0;           ///< operands, references, compilation
  double runs = 0;                   ///< runs of the problem over the whole sweep, in default times
  double overheadPerRunSeconds = 0;  ///< cache flush and rest, shared over the runs
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
  explicit Schedule(std::vector<ScheduledProblem> problems) : open_(std::move(problems)) {}

  bool empty() const { return open_.empty(); }
  const std::vector<ScheduledProblem>& open() const { return open_; }
  Calibration& calibration() { return calibration_; }

  /// Seconds that the problem is expected to take, and seconds that one run of its default takes.
  double costSeconds(const ScheduledProblem& problem) const;
  double runSeconds(const ScheduledProblem& problem) const;
  /// Expected cost of everything that is open.
  double remainingSeconds() const;

  /// Takes the next problem whose expected cost fits `seconds`; false leaves the schedule as it is.
  bool next(double seconds, ScheduledProblem& problem);
  /// Charges the operation with what a problem really took.
  void spent(Operation operation, double seconds) { spent_[operation] += seconds; }

 private:
  std::vector<ScheduledProblem> open_;
  Calibration calibration_;
  std::map<Operation, double> spent_;
};

}  // namespace tilewright
