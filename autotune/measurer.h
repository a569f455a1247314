// Plans measured in a worker process that is replaced whenever a plan breaks it.
//
// The measurer remembers the open problem and every plan's description. After a crash or a kill the next question
// starts a new worker, opens the problem again and prepares the plan that is asked for: the guilty plan is the caller's
// to avoid, all others notice nothing. A worker that was ended from outside speaks against no plan: the question is
// asked once more.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotune/worker_process.h"

namespace tilewright::autotune {

struct PlanDescription {
  std::string templateId;
  Configuration configuration;
  std::vector<PlanBinary> binaries;
};

struct MeasurerOptions {
  std::vector<std::string> command;  ///< of the worker; see worker.h
  std::string device;                ///< "cpu", "cuda:0"
  double startSeconds = 60;          ///< a fresh process, its context, and an open problem get this long at least
};

class Measurer {
 public:
  /// `stop` is asked while a worker is busy; when it answers true the worker is killed and the question fails.
  Measurer(MeasurerOptions options, std::function<bool()> stop)
      : options_(std::move(options)), stop_(std::move(stop)) {}

  // Errors of the questions below: kTimeout (the limit passed, or `stop`: see stopped()), kDevice (the worker crashed
  // or the device reported a fault), kOutOfMemory and whatever else the worker's device reports. Limits are in seconds.

  /// Starts the worker if it is not running.
  Result<void> start();
  Result<void> open(const Problem& problem, const OpenOptions& options, double limit);
  Result<Verification> prepare(int plan, PlanDescription description, double limit);
  Result<Verification> verify(int plan, double limit);
  Result<std::vector<double>> measure(int plan, const MeasureOptions& options, double limit);
  void release(int plan);

  /// Whether the last kTimeout was the caller's own wish.
  bool stopped() const { return stop_ && stop_(); }
  /// Worker processes that were started so far.
  int starts() const { return starts_; }
  pid_t pid() const { return worker_ ? worker_->pid() : -1; }

 private:
  Result<WorkerReply> ask(const WorkerRequest& request, double limit);
  /// Asks again if the worker was ended from outside.
  template <typename Question>
  auto asked(Question question);
  Result<void> ensureOpen();
  Result<void> ensurePrepared(int plan, double limit);
  Result<WorkerReply> sendPlan(int plan, double limit);

  MeasurerOptions options_;
  std::function<bool()> stop_;
  std::optional<WorkerProcess> worker_;
  int starts_ = 0;
  bool wasEnded_ = false;  // the last worker, from outside
  std::optional<std::pair<Problem, OpenOptions>> problem_;
  double openLimit_ = 0;
  bool isOpen_ = false;         // in the present worker
  std::set<std::string> sent_;  // binaries that the present worker has
  std::set<int> prepared_;      // plans that the present worker has
  std::map<int, PlanDescription> plans_;
};

}  // namespace tilewright::autotune
