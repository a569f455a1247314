#include "autotune/contenders.h"

#include <algorithm>
#include <chrono>

namespace tilewright::autotune {

void Contender::refuse(RecordStatus why, std::string constraint, std::string reason) {
  isAlive = false;
  status = why;
  refusal = {std::move(constraint), std::move(reason)};
}

Result<void> Contenders::add(const std::vector<Candidate>& candidates, int defaultCandidate) {
  const std::size_t first = all_.size();
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
    Contender contender{.candidate = candidates[i], .isDefault = i == defaultCandidate};
    const Template& kernelTemplate = *candidates[i].kernelTemplate;
    contender.plan.kernelTemplate = &kernelTemplate;
    contender.plan.configuration = candidates[i].configuration;
    contender.plan.requests =
        kernelTemplate.buildRequests(problem_, context_.device, candidates[i].configuration, context_.sources);
    all_.push_back(std::move(contender));
  }
  return context_.force ? Result<void>() : skipRemembered(first);
}

Result<void> Contenders::skipRemembered(std::size_t first) {
  if (!remembered_) remembered_ = TW_TRY(context_.store.refusals(problem_));
  if (remembered_->empty()) return {};
  for (std::size_t i = first; i < all_.size(); ++i) {
    const auto found = remembered_->find(context_.store.planKey(all_[i].plan));
    if (found == remembered_->end()) continue;
    all_[i].refuse(RecordStatus::kRefused, found->second.constraint, found->second.reason);
    all_[i].isRemembered = true;
  }
  return {};
}

bool Contenders::contains(const Candidate& candidate) const {
  return std::ranges::any_of(all_, [&](const Contender& each) {
    return each.candidate.kernelTemplate == candidate.kernelTemplate &&
           each.candidate.configuration == candidate.configuration;
  });
}

bool Contenders::build() {
  for (Contender& each : all_) {
    if (!each.isAlive || !each.keys.empty()) continue;
    for (const BuildRequest& request : each.plan.requests) each.keys.push_back(context_.builder.submit(request));
  }
  const auto start = std::chrono::steady_clock::now();
  const int compiledBefore = context_.builder.compiled();
  for (int i = 0; i < size(); ++i) {
    Contender& each = all_[i];
    context_.tell("compiling", i, size());
    if (!each.isAlive || !each.plan.binaries.empty()) continue;
    for (const std::string& key : each.keys) {
      const auto outcome = context_.builder.wait(key, [this] { return context_.mustStop(); });
      if (!outcome) return false;
      if (!*outcome) {
        each.refuse(RecordStatus::kRefused, "build", outcome->error().message);
        each.isRecorded = outcome->error().code == ErrorCode::kCompile;
        each.plan.binaries.clear();
        break;
      }
      each.plan.binaries.push_back(**outcome);
      if (auto refusal = refusesBinary(*each.plan.kernelTemplate, ***outcome)) {
        each.refuse(RecordStatus::kRefused, refusal->constraint, refusal->reason);
        break;
      }
    }
  }
  const int compiled = context_.builder.compiled() - compiledBefore;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (compiled > 0) context_.buildSeconds = (context_.buildSeconds + seconds.count() / compiled) / 2;
  builds_ += compiled;
  return true;
}

Result<void> Contenders::storeDefaults() {
  for (const Contender& each : all_) {
    const bool isDefault =
        each.plan.configuration == each.plan.kernelTemplate->defaultConfiguration(problem_, context_.device);
    if (isDefault && each.isAlive && !each.plan.binaries.empty()) TW_TRY(context_.store.addDefaults(each.plan));
  }
  return {};
}

Result<void> Contenders::prepare(int index, double limit) {
  Contender& contender = all_[index];
  PlanDescription description{.templateId = std::string(contender.plan.kernelTemplate->id()),
                              .configuration = contender.plan.configuration};
  for (std::size_t i = 0; i < contender.plan.binaries.size(); ++i) {
    description.binaries.push_back({contender.plan.binaries[i], contender.plan.requests[i].entries});
  }
  Result<Verification> verified = context_.measurer.prepare(index, std::move(description), limit);
  if (!verified) {
    judge(contender, verified.error());
    return context_.mustStop() ? Result<void>() : context_.measurer.start();
  }
  contender.verification = std::move(*verified);
  contender.isPrepared = true;
  if (!contender.verification.ok) {
    contender.refuse(RecordStatus::kWrong, "wrong_result", contender.verification.what);
    context_.measurer.release(index);
  }
  return {};
}

void Contenders::judge(Contender& contender, const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimeout:
      if (context_.measurer.stopped()) {
        // Interrupted, which says nothing about the plan.
        contender.isAlive = contender.isRecorded = false;
      } else {
        contender.refuse(RecordStatus::kTimeout, "timeout", error.message);
      }
      break;
    case ErrorCode::kDevice:
      contender.refuse(RecordStatus::kCrashed, "crashed", error.message);
      break;
    default:
      contender.refuse(RecordStatus::kRefused, std::string(errorCodeName(error.code)), error.message);
      contender.isRecorded = error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kInvalidArgument;
      break;
  }
}

std::vector<int> Contenders::aliveInProbeOrder() const {
  std::vector<int> alive;
  for (int i = 0; i < size(); ++i) {
    if (all_[i].isAlive) alive.push_back(i);
  }
  std::ranges::stable_sort(
      alive, {}, [this](int i) { return all_[i].isDefault ? -1.0 : all_[i].candidate.predictedMicroseconds; });
  return alive;
}

std::vector<RefusedPlan> Contenders::refused() const {
  std::vector<RefusedPlan> refused;
  for (const Contender& each : all_) {
    if (each.refusal.constraint.empty()) continue;
    refused.push_back(
        {std::string(each.plan.kernelTemplate->id()), each.plan.configuration, each.refusal, each.isRemembered});
  }
  return refused;
}

std::vector<TuningStore::Loser> Contenders::losers(int winner) const {
  std::vector<TuningStore::Loser> losers;
  for (int i = 0; i < size(); ++i) {
    const Contender& each = all_[i];
    const bool isRefused = !each.refusal.constraint.empty();
    const bool isMeasured = each.isAlive && each.entry.statistics.count > 0 && i != winner;
    if (each.isRemembered || !each.isRecorded || (!isRefused && !isMeasured)) continue;
    TuningStore::Loser loser{.plan = each.plan,
                             .status = each.status,
                             .statistics = each.entry.statistics,
                             .error = each.verification.error,
                             .outlierError = each.verification.outlierError,
                             .preparation = each.verification.preparation};
    if (isRefused) loser.reason = fmt::format("{}: {}", each.refusal.constraint, each.refusal.reason);
    losers.push_back(std::move(loser));
  }
  return losers;
}

}  // namespace tilewright::autotune
