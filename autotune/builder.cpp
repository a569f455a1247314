#include "autotune/builder.h"

#include <algorithm>
#include <chrono>

namespace tilewright::autotune {

Builder::Builder(std::span<const Compiler* const> compilers, int jobs, Find find)
    : compilers_(compilers.begin(), compilers.end()), find_(std::move(find)) {
  for (int i = 0; i < std::max(jobs, 1); ++i) threads_.emplace_back([this] { work(); });
}

Builder::~Builder() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
  }
  queued_.notify_all();
}

const Compiler* Builder::compilerOf(const BuildRequest& request) const {
  const auto handles = [&](const Compiler* each) { return each->handles(request.kind, request.target); };
  const auto compiler = std::ranges::find_if(compilers_, handles);
  return compiler == compilers_.end() ? nullptr : *compiler;
}

std::string Builder::keyOf(const BuildRequest& request) const {
  const Compiler* compiler = compilerOf(request);
  return buildKey(request, compiler == nullptr ? std::string() : compiler->identity());
}

std::string Builder::submit(BuildRequest request, bool urgent) {
  std::string key = keyOf(request);
  {
    const std::lock_guard lock(mutex_);
    const auto [job, isNew] = jobs_.try_emplace(key, Job{std::move(request), std::nullopt});
    const auto place = std::ranges::find(queue_, key);
    if (isNew) {
      urgent ? queue_.push_front(key) : queue_.push_back(key);
    } else if (urgent && place != queue_.end()) {
      queue_.erase(place);
      queue_.push_front(key);
    }
  }
  queued_.notify_one();
  return key;
}

std::optional<Builder::Outcome> Builder::wait(const std::string& key, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto job = jobs_.find(key);
    if (job == jobs_.end()) return fail(ErrorCode::kInternal, "build {} was never submitted", key);
    if (job->second.outcome) return *job->second.outcome;
    lock.unlock();
    if (stop()) return std::nullopt;
    lock.lock();
    finished_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

int Builder::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

void Builder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (closing_) return;
    const std::string key = std::move(queue_.front());
    queue_.pop_front();
    // References into a map stay valid while others are inserted; jobs are never erased.
    Job& job = jobs_.at(key);
    lock.unlock();
    Outcome outcome = build(key, job.request);
    lock.lock();
    job.outcome = std::move(outcome);
    finished_.notify_all();
  }
}

Builder::Outcome Builder::build(const std::string& key, const BuildRequest& request) {
  if (std::optional<Binary> found = find_(key)) return std::make_shared<const Binary>(std::move(*found));
  const Compiler* compiler = compilerOf(request);
  if (compiler == nullptr) {
    return fail(ErrorCode::kUnavailable, "cannot build {} for {}: no compiler of this program handles it",
                request.templateId, request.target);
  }
  Result<Binary> binary = compiler->build(request);
  {
    const std::lock_guard lock(mutex_);
    ++compiled_;
  }
  if (!binary) return std::unexpected(std::move(binary).error());
  return std::make_shared<const Binary>(std::move(*binary));
}

}  // namespace tilewright::autotune
