#include "cache/record.h"

#include <fmt/chrono.h>

#include <array>
#include <ctime>

namespace tilewright {

std::string_view recordStatusName(RecordStatus status) {
  switch (status) {
    case RecordStatus::kOk:
      return "ok";
    case RecordStatus::kWrong:
      return "wrong";
    case RecordStatus::kRefused:
      return "refused";
    case RecordStatus::kTimeout:
      return "timeout";
    case RecordStatus::kCrashed:
      return "crashed";
  }
  return "unknown";
}

std::optional<RecordStatus> recordStatusFromName(std::string_view name) {
  for (const auto status : {RecordStatus::kOk, RecordStatus::kWrong, RecordStatus::kRefused, RecordStatus::kTimeout,
                            RecordStatus::kCrashed}) {
    if (name == recordStatusName(status)) return status;
  }
  return std::nullopt;
}

std::string utcNow() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace tilewright
