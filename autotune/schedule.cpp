#include "autotune/schedule.h"

#include <algorithm>
#include <cmath>

namespace tilewright::autotune {

void Calibration::add(std::string_view templateId, double predictedMicroseconds, double measuredMicroseconds) {
  if (predictedMicroseconds <= 0 || measuredMicroseconds <= 0) return;
  Sum& sum = sums_[std::string(templateId)];
  sum.logarithms += std::log(measuredMicroseconds / predictedMicroseconds);
  ++sum.count;
}

double Calibration::factor(std::string_view templateId) const {
  const auto sum = sums_.find(templateId);
  return sum == sums_.end() ? 1 : std::exp(sum->second.logarithms / sum->second.count);
}

double Schedule::runSeconds(const ScheduledProblem& problem) const {
  return problem.defaultMicroseconds * calibration_.factor(problem.defaultTemplate) * 1e-6;
}

double Schedule::costSeconds(const ScheduledProblem& problem) const {
  return cost_(problem, runSeconds(problem));
}

double Schedule::remainingSeconds() const {
  double sum = 0;
  for (const ScheduledProblem& problem : open_) sum += costSeconds(problem);
  return sum;
}

const ScheduledProblem* Schedule::peek(double seconds) const {
  const auto spentOn = [this](Operation operation) {
    const auto spent = spent_.find(operation);
    return spent == spent_.end() ? 0.0 : spent->second;
  };
  const ScheduledProblem* best = nullptr;
  double bestWorth = 0, bestSpent = 0;
  for (const ScheduledProblem& each : open_) {
    const double cost = costSeconds(each);
    if (cost > seconds) continue;
    const double spent = spentOn(each.problem.operation);
    const double worth = each.count * runSeconds(each) * each.expectedGain / cost;
    // Equal spending (nothing yet) leaves the choice to the worth.
    if (best == nullptr || (spent != bestSpent ? spent < bestSpent : worth > bestWorth)) {
      best = &each, bestWorth = worth, bestSpent = spent;
    }
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
