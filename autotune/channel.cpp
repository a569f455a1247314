#include "autotune/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace tilewright::autotune {
namespace {

constexpr int kPollMilliseconds = 100;

}  // namespace

void Channel::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  buffer_.clear();
}

Result<void> Channel::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail(ErrorCode::kIo, "cannot send to the other process: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> Channel::line(double seconds, const std::function<bool()>& stop) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();

    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    const double left = seconds < 0 ? kPollMilliseconds : (seconds - waited.count()) * 1000;
    if (left <= 0) return fail(ErrorCode::kTimeout, "no answer within {:.1f} s", seconds);
    if (stop && stop()) return fail(ErrorCode::kTimeout, "stopped");
    TW_TRY(fill(std::min(static_cast<int>(left) + 1, kPollMilliseconds)));
  }
}

Result<void> Channel::bytes(std::span<std::byte> to) {
  while (!to.empty()) {
    if (buffer_.empty()) TW_TRY(fill(-1));
    const std::size_t taken = std::min(buffer_.size(), to.size());
    std::memcpy(to.data(), buffer_.data(), taken);
    buffer_.erase(0, taken);
    to = to.subspan(taken);
  }
  return {};
}

Result<bool> Channel::fill(int milliseconds) {
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&waiting, 1, milliseconds);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return false;
  std::array<char, 65536> chunk;
  const ssize_t received = ready < 0 ? -1 : ::recv(socket_, chunk.data(), chunk.size(), 0);
  if (received < 0 && errno == EINTR) return false;
  if (received < 0 && errno != ECONNRESET) {
    return fail(ErrorCode::kIo, "cannot receive from the other process: {}", std::strerror(errno));
  }
  if (received <= 0) return fail(ErrorCode::kIo, "the other process is gone");
  buffer_.append(chunk.data(), static_cast<std::size_t>(received));
  return true;
}

}  // namespace tilewright::autotune
