// Expected failure as a value: every function that can fail because of input, files or a device returns Result<T>.
//
//   Result<Binary> build(const BuildRequest& request);
//   Binary binary = TW_TRY(compiler.build(request));       // hands the error on to the caller
//
// A message says what was attempted, with which values, and which rule failed, in lower case without a full stop:
//   cannot build attention.tma_sm90 {tile_m=96}: tile_m must be a multiple of 64
#pragma once

#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace tilewright {

/// What the caller can do about a failure. The C API and the exit codes of the command line map onto these.
enum class ErrorCode {
  kInvalidArgument,  ///< the caller's values break a rule that the message names; correct them
  kUnsupported,      ///< a valid request that no template, target or build of this library covers
  kNotFound,         ///< a file, database entry or device that does not exist
  kUnavailable,      ///< a driver, toolkit or library is missing, or a file is locked; may succeed elsewhere or later
  kCorrupt,          ///< stored bytes contradict their hash or their schema
  kVersion,          ///< a database of another schema, or a kernel of a template this program does not know
  kIo,               ///< the operating system refused: permissions, no space, a read-only file system
  kOutOfMemory,      ///< host or device memory
  kCompile,          ///< a code generator refused the source; `Error::log` has its words
  kDevice,           ///< the driver reported an error, or a kernel faulted
  kTimeout,          ///< a worker or kernel passed its time limit
  kInternal,         ///< our own mistake
};

/// The code's stable name, such as "invalid_argument".
std::string_view errorCodeName(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
  std::string log{};  ///< compiler output or other detail that would drown the message; may be empty
};

template <typename T>
using Result = std::expected<T, Error>;

/// An error as a return value: `return fail(ErrorCode::kIo, "cannot read {}: {}", path, reason);`
template <typename... Arguments>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Arguments>(arguments)...)});
}

}  // namespace tilewright

/// The value of a Result, or return its error from the enclosing function. Works for Result<void> too.
/// NOTE: never inside an expression that owns something (`new`, temporaries with destructors): returning leaks it.
#define TW_TRY(...)                                        \
  ({                                                       \
    auto twResult = (__VA_ARGS__);                         \
    if (!twResult) [[unlikely]]                            \
      return std::unexpected(std::move(twResult).error()); \
    std::move(twResult).value();                           \
  })
