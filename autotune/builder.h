// Compiles build requests on all cores, in the background, each at most once.
//
// Many problems share a binary (m, n and k are arguments of a kernel), so a build is remembered for the whole sweep,
// and a request whose binary the tuning database already has is not compiled at all. On a GPU the next problem compiles
// while the present one is measured; on the CPU, where that would disturb the measurement, the sweep waits first.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/build_request.h"
#include "base/result.h"

namespace tilewright::autotune {

class Builder {
 public:
  /// The binary of a key that keyOf() gives, if it exists already.
  using Find = std::function<std::optional<Binary>(const std::string& buildKey)>;
  using Outcome = Result<std::shared_ptr<const Binary>>;

  /// Starts `jobs` threads (at least one). The compilers must outlive the builder.
  Builder(std::span<const Compiler* const> compilers, int jobs, Find find);
  /// Drops what has not started and waits for what has.
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// The compiler of a request, or null.
  const Compiler* compilerOf(const BuildRequest& request) const;
  /// The request's key under its compiler; its request key if no compiler handles it.
  std::string keyOf(const BuildRequest& request) const;

  /// Queues a request unless it was queued before, and returns its key. `urgent` requests go first.
  std::string submit(BuildRequest request, bool urgent = true);
  /// The outcome of a submitted key once it is there, or nothing when `stop` answers true first (asked 20 times a
  /// second).
  std::optional<Outcome> wait(const std::string& key, const std::function<bool()>& stop);

  /// Builds that were compiled, not found.
  int compiled() const;

 private:
  struct Job {
    BuildRequest request;
    std::optional<Outcome> outcome;
  };

  void work();
  Outcome build(const std::string& key, const BuildRequest& request);

  std::vector<const Compiler*> compilers_;
  Find find_;
  mutable std::mutex mutex_;
  std::condition_variable queued_, finished_;
  std::map<std::string, Job> jobs_;
  std::deque<std::string> queue_;
  bool closing_ = false;
  int compiled_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace tilewright::autotune
