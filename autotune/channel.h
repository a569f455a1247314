// A connected stream socket that carries lines and, between them, counted bytes.
//
// A socket pair rather than pipes: one descriptor for both directions, and a write to a dead worker is an error value
// instead of a SIGPIPE.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tilewright::autotune {

class Channel {
 public:
  /// Takes the socket over; -1 is a closed channel.
  explicit Channel(int socket = -1) : socket_(socket) {}
  Channel(Channel&& other) noexcept : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(socket_, other.socket_), std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~Channel() { close(); }

  void close();

  /// kIo when the other side is gone.
  Result<void> send(std::string_view bytes);

  /// The next line without its newline. kIo when the other side is gone; kTimeout after `seconds` (negative: never) or
  /// when `stop` (asked ten times a second; may be empty) answers true.
  Result<std::string> line(double seconds, const std::function<bool()>& stop);
  /// Exactly `to.size()` bytes, waiting as long as the other side lives.
  Result<void> bytes(std::span<std::byte> to);

 private:
  /// Appends what is there to the buffer after waiting up to `milliseconds` (negative: for ever); false if nothing
  /// came.
  Result<bool> fill(int milliseconds);

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace tilewright::autotune
