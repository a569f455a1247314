#include "autotune/schedule.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tilewright::autotune {

void Calibration::add(std::string_view templateId, double predictedMicroseconds, double measuredMicroseconds) {
  if (predictedMicroseconds <= 0 || measuredMicroseconds <= 0) return;
  points_[std::string(templateId)].push_back(
      {std::log(predictedMicroseconds), std::log(measuredMicroseconds / predictedMicroseconds)});
}

double Calibration::factor(std::string_view templateId, double predictedMicroseconds) const {
  const auto points = points_.find(templateId);
  if (points == points_.end() || predictedMicroseconds <= 0) return 1;
  double weights = 0, sum = 0;
  for (const Point& point : points->second) {
    const double distance = std::log(predictedMicroseconds) - point.logPredicted;
    const double weight = 1 / (0.1 + distance * distance);
    weights += weight, sum += weight * point.logFactor;
  }
  return std::exp(sum / weights);
}

double Schedule::runSeconds(const ScheduledProblem& problem) const {
  if (problem.measuredSeconds > 0) return problem.measuredSeconds;
  return problem.defaultMicroseconds * calibration_.factor(problem.defaultTemplate, problem.defaultMicroseconds) * 1e-6;
}

double Schedule::costSeconds(const ScheduledProblem& problem) const {
  return cost_(problem, runSeconds(problem));
}

double Schedule::remainingSeconds() const {
  double sum = 0;
  for (const ScheduledProblem& problem : open_) sum += costSeconds(problem);
  return sum;
}

Schedule::Group Schedule::groupOf(const Problem& problem) {
  const std::int64_t rows = problem.isLinear() ? problem.linear.m : problem.attention.qLen;
  return {problem.operation, rows <= 8 ? 0 : rows <= 128 ? 1 : 2};
}

const ScheduledProblem* Schedule::peek(double seconds) const {
  const auto spentOn = [this](const Problem& problem) {
    const auto spent = spent_.find(groupOf(problem));
    return spent == spent_.end() ? 0.0 : spent->second;
  };
  const ScheduledProblem* best = nullptr;
  // Compared in this order, smaller first. Equal spending (nothing yet) leaves the choice to the rest.
  using Rank = std::tuple<double, bool, double>;
  Rank bestRank;
  for (const ScheduledProblem& each : open_) {
    const double cost = costSeconds(each);
    if (cost > seconds) continue;
    const double worth = each.count * runSeconds(each) * each.expectedGain / (cost * cost);
    const Rank rank{spentOn(each.problem), cost > cheapSeconds_, -worth};
    if (best == nullptr || rank < bestRank) best = &each, bestRank = rank;
  }
  return best;
}

std::optional<ScheduledProblem> Schedule::take(double seconds) {
  const ScheduledProblem* best = peek(seconds);
  if (best == nullptr) return std::nullopt;
  const auto place = open_.begin() + (best - open_.data());
  ScheduledProblem taken = std::move(*place);
  open_.erase(place);
  return taken;
}

}  // namespace tilewright::autotune
