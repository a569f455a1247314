#include "autotune/measurer.h"

#include <algorithm>

namespace tilewright::autotune {

Result<void> Measurer::start() {
  if (worker_) return {};
  worker_ = TW_TRY(WorkerProcess::start(options_.command));
  ++starts_;
  isOpen_ = false;
  sent_.clear();
  prepared_.clear();
  TW_TRY(ask({.kind = WorkerRequest::Kind::kStart, .device = options_.device}, options_.startSeconds));
  return {};
}

Result<WorkerReply> Measurer::ask(const WorkerRequest& request, double limit) {
  Result<WorkerReply> reply = worker_->ask(request, limit, stop_);
  // A worker that is still busy or has seen a fault cannot be asked again.
  if (!reply && (reply.error().code == ErrorCode::kTimeout || reply.error().code == ErrorCode::kDevice)) {
    wasEnded_ = worker_->wasEnded();
    worker_.reset();
  }
  return reply;
}

template <typename Question>
auto Measurer::asked(Question question) {
  wasEnded_ = false;
  auto answer = question();
  if (answer || !wasEnded_ || stopped()) return answer;
  return question();
}

Result<void> Measurer::open(const Problem& problem, const OpenOptions& options, double limit) {
  problem_ = {problem, options};
  openLimit_ = limit;
  isOpen_ = false;
  plans_.clear();
  prepared_.clear();
  return asked([&] { return ensureOpen(); });
}

Result<void> Measurer::ensureOpen() {
  TW_TRY(start());
  if (isOpen_) return {};
  if (!problem_) return fail(ErrorCode::kInternal, "no problem is open");
  TW_TRY(ask({.kind = WorkerRequest::Kind::kOpen, .problem = problem_->first, .open = problem_->second}, openLimit_));
  isOpen_ = true;
  return {};
}

Result<Verification> Measurer::prepare(int plan, PlanDescription description, double limit) {
  plans_.insert_or_assign(plan, std::move(description));
  return asked([&]() -> Result<Verification> {
    TW_TRY(ensureOpen());
    return TW_TRY(sendPlan(plan, limit)).verification;
  });
}

Result<WorkerReply> Measurer::sendPlan(int plan, double limit) {
  const PlanDescription& description = plans_.at(plan);
  WorkerRequest request{.kind = WorkerRequest::Kind::kPrepare,
                        .plan = plan,
                        .templateId = description.templateId,
                        .configuration = description.configuration};
  for (const auto& [binary, entries] : description.binaries) {
    request.parts.push_back({binary->hash, entries});
    if (!sent_.insert(binary->hash).second) continue;
    const WorkerRequest announced{.kind = WorkerRequest::Kind::kBinary, .binary = *binary};
    const std::string_view bytes(reinterpret_cast<const char*>(binary->bytes.data()), binary->bytes.size());
    // A worker that is gone shows at the question itself, with the way in which it ended.
    if (!worker_->send(encodeRequest(announced)) || !worker_->send(bytes)) break;
  }
  WorkerReply reply = TW_TRY(ask(request, limit));
  prepared_.insert(plan);
  return reply;
}

Result<void> Measurer::ensurePrepared(int plan, double limit) {
  if (!plans_.contains(plan)) return fail(ErrorCode::kInternal, "plan {} was never prepared", plan);
  TW_TRY(ensureOpen());
  if (!prepared_.contains(plan)) TW_TRY(sendPlan(plan, limit));
  return {};
}

Result<Verification> Measurer::verify(int plan, double limit) {
  return asked([&]() -> Result<Verification> {
    TW_TRY(ensurePrepared(plan, limit));
    return TW_TRY(ask({.kind = WorkerRequest::Kind::kVerify, .plan = plan}, limit)).verification;
  });
}

Result<std::vector<double>> Measurer::measure(int plan, const MeasureOptions& options, double limit) {
  return asked([&]() -> Result<std::vector<double>> {
    TW_TRY(ensurePrepared(plan, limit));
    return TW_TRY(ask({.kind = WorkerRequest::Kind::kMeasure, .plan = plan, .measure = options}, limit)).microseconds;
  });
}

void Measurer::release(int plan) {
  plans_.erase(plan);
  if (!worker_ || prepared_.erase(plan) == 0) return;
  // A worker that dies of this is noticed at the next question.
  static_cast<void>(ask({.kind = WorkerRequest::Kind::kRelease, .plan = plan}, options_.startSeconds));
}

}  // namespace tilewright::autotune
