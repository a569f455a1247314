#include "autotune/schedule.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

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
  return problem.setupSeconds + problem.runs * (runSeconds(problem) + problem.overheadPerRunSeconds);
}

double Schedule::remainingSeconds() const {
  double sum = 0;
  for (const ScheduledProblem& problem : open_) sum += costSeconds(problem);
  return sum;
}

bool Schedule::next(double seconds, ScheduledProblem& problem) {
  const auto spentOn = [this](Operation operation) {
    const auto spent = spent_.find(operation);
    return spent == spent_.end() ? 0.0 : spent->second;
  };
  const auto worth = [this](const ScheduledProblem& each) {
    return each.count * runSeconds(each) * each.expectedGain / costSeconds(each);
  };
  auto best = open_.end();
  for (auto each = open_.begin(); each != open_.end(); ++each) {
    if (costSeconds(*each) > seconds) continue;
    if (best == open_.end()) {
      best = each;
      continue;
    }
    const double ours = spentOn(each->problem.operation), theirs = spentOn(best->problem.operation);
    // Equal spending (nothing yet) leaves the choice to the worth.
    if (ours != theirs ? ours < theirs : worth(*each) > worth(*best)) best = each;
  }
  if (best == open_.end()) return false;
  problem = std::move(*best);
  open_.erase(best);
  return true;
}

}  // namespace tilewright
