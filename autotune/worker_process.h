// The tuner's side of a worker process: starts it, talks to it within time limits, kills it.
//
// The child is this very program (/proc/self/exe) under the hidden verb `tune-worker`. It is in a process group of its
// own, so that ^C reaches the tuner alone, and dies with the tuner's thread that started it (PR_SET_PDEATHSIG), so that
// a killed tuner leaves no kernel running. What it prints goes to standard error.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autotune/channel.h"
#include "autotune/protocol.h"
#include "base/result.h"

namespace tilewright::autotune {

/// The child's end of the socket pair.
inline constexpr int kWorkerSocket = 3;

class WorkerProcess {
 public:
  /// kUnavailable if the operating system starts no process. The calling thread must outlive the worker.
  static Result<WorkerProcess> start(const std::vector<std::string>& command);

  WorkerProcess(WorkerProcess&& other) noexcept { *this = std::move(other); }
  WorkerProcess& operator=(WorkerProcess&& other) noexcept {
    std::swap(pid_, other.pid_), std::swap(channel_, other.channel_), std::swap(wasEnded_, other.wasEnded_);
    return *this;
  }
  ~WorkerProcess() { kill(); }

  /// Sends bytes that ask for no answer. kIo if the worker is gone.
  Result<void> send(std::string_view bytes) { return channel_.send(bytes); }
  /// The worker's answer. kTimeout after `seconds` or when `stop` answers true: the worker is still busy then, and must
  /// be killed. kDevice "crashed (signal 11, ...)" if it died.
  Result<WorkerReply> ask(const WorkerRequest& request, double seconds, const std::function<bool()>& stop);

  pid_t pid() const { return pid_; }
  bool isRunning() const { return pid_ > 0; }
  /// Whether somebody else ended it: a SIGKILL or SIGTERM that is not ours, as the system sends when memory runs out.
  bool wasEnded() const { return wasEnded_; }
  /// Ends the process and reaps it. Returns how it ended: "exited with status 1", "was killed by signal 11 (...)".
  std::string kill();

 private:
  WorkerProcess(pid_t pid, Channel channel) : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_ = -1;
  bool wasEnded_ = false;
  Channel channel_;
};

}  // namespace tilewright::autotune
