// Which problem to tune next, and what still fits the budget.
//
// A problem's value is the time that tuning it is expected to save: count x predicted time x expected gain. Its cost is
// the time that its sweep is expected to take: operands, compilation, and runs of every candidate. Between groups (an
// operation at decoding, small-batch or prefill sizes) the one that has spent the least goes first, so that a short
// budget brings winners for all of them. Within a group cheap problems go before dear ones, and among either the
// highest value / cost^2. (Value / cost would save the most per second of tuning, but it begins with the largest
// problems, whose races are the shallowest; with the square a budget brings many winners, which also serve the shapes
// between them.)
//
// Predictions come from the templates' cost models, which are right about order and wrong about scale. The schedule
// corrects them by what was measured of the same template: a geometric mean of measured / predicted, in which problems
// of like predicted time weigh most (what waits for memory and what waits for arithmetic are off by different factors).
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
  double measuredSeconds = 0;      ///< one run of the default, once it ran; replaces the prediction
  double expectedGain = 0;         ///< share of the default's time that tuning may save, 0 to 1
};

/// Measured over predicted, per template.
class Calibration {
 public:
  void add(std::string_view templateId, double predictedMicroseconds, double measuredMicroseconds);
  /// 1 until something of the template was measured.
  double factor(std::string_view templateId, double predictedMicroseconds) const;

 private:
  struct Point {
    double logPredicted, logFactor;
  };
  std::map<std::string, std::vector<Point>, std::less<>> points_;
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

  /// Up to which cost a problem counts as cheap, in seconds.
  void setCheap(double seconds) { cheapSeconds_ = seconds; }

  /// The next problem whose expected cost fits `seconds`, or null. Valid until the next call.
  const ScheduledProblem* peek(double seconds) const;
  /// Takes it out; the schedule stays as it is when there is none.
  std::optional<ScheduledProblem> take(double seconds);
  /// Puts a problem back, whose default turned out to take `runSeconds`.
  void postpone(ScheduledProblem problem, double runSeconds) {
    problem.measuredSeconds = runSeconds;
    open_.push_back(std::move(problem));
  }
  /// Charges the problem's group with what it really took.
  void spent(const Problem& problem, double seconds) { spent_[groupOf(problem)] += seconds; }

 private:
  using Group = std::pair<Operation, int>;
  /// The operation, and whether it decodes (up to 8 rows), serves a small batch (up to 128) or a prefill.
  static Group groupOf(const Problem& problem);

  std::vector<ScheduledProblem> open_;
  Cost cost_;
  Calibration calibration_;
  double cheapSeconds_ = 0;
  std::map<Group, double> spent_;
};

}  // namespace tilewright::autotune
