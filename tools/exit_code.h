// Exit codes of the command line, the same for every verb; docs/formats.md and --help list them.
#pragma once

#include "base/result.h"

namespace tilewright {

enum ExitCode : int {
  kExitSuccess = 0,      ///< done; for `tune` also when the budget ended or ^C stopped it with what it had
  kExitFailure = 1,      ///< tried and failed: a file system, memory, a compiler, a device, a time limit
  kExitUsage = 2,        ///< flags or input that break a rule, which the message names
  kExitNotFound = 3,     ///< a file, entry or device that does not exist, or a problem that nothing covers
  kExitUnavailable = 4,  ///< a driver, toolkit or library is missing, or a file is locked
  kExitCorrupt = 5,      ///< a damaged file, or one of another version; `db verify` found damage
};

inline ExitCode exitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kUnavailable:
      return kExitUnavailable;
    case ErrorCode::kCorrupt:
    case ErrorCode::kVersion:
      return kExitCorrupt;
    case ErrorCode::kIo:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kCompile:
    case ErrorCode::kDevice:
    case ErrorCode::kTimeout:
    case ErrorCode::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

}  // namespace tilewright
