#include "autotune/worker_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace tilewright::autotune {
namespace {

// A process that the kernel's driver holds (an uninterruptible wait) is abandoned after this time.
constexpr std::chrono::seconds kReapLimit{10};

// Between fork and exec in a program with threads: async-signal-safe calls only.
[[noreturn]] void becomeWorker(int socket, pid_t parent, char* const* arguments) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (socket == kWorkerSocket) {
    ::fcntl(socket, F_SETFD, 0);
  } else {
    ::dup2(socket, kWorkerSocket);
  }
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace

Result<WorkerProcess> WorkerProcess::start(const std::vector<std::string>& command) {
  std::vector<std::string> texts = command;
  std::vector<char*> arguments;
  for (std::string& each : texts) arguments.push_back(each.data());
  arguments.push_back(nullptr);

  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return fail(ErrorCode::kUnavailable, "cannot start a measuring process: {}", std::strerror(errno));
  }
  Channel ours(sockets[0]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) becomeWorker(sockets[1], parent, arguments.data());
  ::close(sockets[1]);
  if (child < 0) return fail(ErrorCode::kUnavailable, "cannot start a measuring process: {}", std::strerror(errno));
  return WorkerProcess(child, std::move(ours));
}

Result<WorkerReply> WorkerProcess::ask(const WorkerRequest& request, double seconds,
                                       const std::function<bool()>& stop) {
  Result<std::string> line = std::unexpected(Error{ErrorCode::kIo, ""});
  if (channel_.send(encodeRequest(request))) line = channel_.line(seconds, stop);
  if (line) return decodeReply(*line);
  if (line.error().code == ErrorCode::kTimeout) return std::unexpected(std::move(line).error());
  return fail(ErrorCode::kDevice, "the measuring process {}", kill());
}

std::string WorkerProcess::kill() {
  channel_.close();
  if (pid_ <= 0) return "is not running";
  const pid_t pid = std::exchange(pid_, -1);
  // Give a process that is already dying the time to leave its own status.
  int status = 0;
  const auto start = std::chrono::steady_clock::now();
  bool killed = false;
  while (std::chrono::steady_clock::now() - start < kReapLimit) {
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped == pid || (reaped < 0 && errno == ECHILD)) {
      wasEnded_ = !killed && WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM);
      return describe(status);
    }
    if (!killed && std::chrono::steady_clock::now() - start > std::chrono::milliseconds(200)) {
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(killed ? 5 : 2));
  }
  return "does not die";
}

}  // namespace tilewright::autotune
