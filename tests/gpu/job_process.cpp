#include "tests/gpu/job_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace tilewright::probe {
namespace {

/// Runs jobs in order and writes how each ended to the parent.
[[noreturn]] void runChild(int first, int count, int pipe, const std::function<JobEnd(int)>& run) {
  for (int job = first; job < count; ++job) {
    const JobEnd end = run(job);
    std::fflush(nullptr);
    if (write(pipe, &end, 1) != 1) _exit(1);
    if (end == JobEnd::kSpoilt) break;
  }
  // NOTE: no destructors: those of a faulted context can hang.
  _exit(0);
}

enum class Wait { kByte, kClosed, kTimeout };

/// Waits for how the child's next job ended.
Wait awaitEnd(int pipe, double seconds, JobEnd& end) {
  pollfd descriptor{.fd = pipe, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&descriptor, 1, static_cast<int>(seconds * 1e3));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return Wait::kTimeout;
  return read(pipe, &end, 1) == 1 ? Wait::kByte : Wait::kClosed;
}

}  // namespace

int runIsolated(int count, double timeoutSeconds, const std::function<JobEnd(int job)>& run,
                const std::function<void(int job, const std::string& reason)>& lost) {
  int failed = 0;
  const auto lose = [&](int job, const std::string& reason) {
    lost(job, reason);
    ++failed;
  };
  for (int job = 0; job < count;) {
    std::array<int, 2> ends{};
    std::fflush(nullptr);
    if (pipe(ends.data()) != 0) return lose(job, "cannot create a pipe"), failed;
    const pid_t child = fork();
    if (child < 0) return lose(job, "cannot start a process"), failed;
    if (child == 0) {
      close(ends[0]);
      runChild(job, count, ends[1], run);
    }
    close(ends[1]);

    const int first = job;
    Wait wait = Wait::kByte;
    JobEnd end{};
    while (job < count && (wait = awaitEnd(ends[0], timeoutSeconds, end)) == Wait::kByte) {
      failed += end != JobEnd::kPassed;
      ++job;
    }
    if (wait == Wait::kTimeout) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    if (wait == Wait::kTimeout) {
      lose(job++, fmt::format("no result within {} s: killed", timeoutSeconds));
    } else if (job < count && WIFSIGNALED(status)) {
      lose(job++, fmt::format("its process died of signal {}", WTERMSIG(status)));
    } else if (job < count && (job == first || WEXITSTATUS(status) != 0)) {
      lose(job++, fmt::format("its process ended with status {}", WEXITSTATUS(status)));
    }
  }
  return failed;
}

}  // namespace tilewright::probe
