#include "compiler/nvrtc/build_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tilewright {
namespace {

/// The text between `before` and `after`, or nothing when `line` does not hold them in this order.
std::optional<std::string_view> between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + before.size();
  const std::size_t end = line.find(after, begin);
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(begin, end - begin);
}

/// The integer that ends right before `unit`, or 0: 1372 for " bytes spill stores".
int numberBefore(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

/// "(C7511)" at the start of what ptxas says.
bool isNumberedRemark(std::string_view line) {
  const std::size_t at = line.find(": (C");
  return line.starts_with("ptxas info") && at != std::string_view::npos && at + 4 < line.size() &&
         line[at + 4] >= '0' && line[at + 4] <= '9';
}

bool isWarning(std::string_view line) {
  if (isNumberedRemark(line) || line.starts_with("ptxas warning")) return true;
  // NVRTC: "file.cu(8): warning #177-D: ...", or without a place "nvrtc: warning: ...".
  return !line.starts_with("Remark") && line.find(": warning") != std::string_view::npos;
}

}  // namespace

BuildLog parseBuildLog(std::string_view log) {
  BuildLog result;
  KernelResources* kernel = nullptr;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);

    if (isWarning(line)) {
      if (std::ranges::find(result.warnings, line) == result.warnings.end()) result.warnings.emplace_back(line);
      continue;
    }
    if (!line.starts_with("ptxas")) continue;

    if (const auto entry = between(line, "Compiling entry function '", "'")) {
      kernel = &result.kernels.emplace_back(KernelResources{.entry = std::string(*entry)});
    } else if (kernel != nullptr && line.find(" bytes stack frame") != std::string_view::npos) {
      kernel->stackBytes += numberBefore(line, " bytes stack frame");
      kernel->spillBytes += numberBefore(line, " bytes spill stores") + numberBefore(line, " bytes spill loads");
    } else if (kernel != nullptr && line.find(" registers") != std::string_view::npos) {
      kernel->registers = numberBefore(line, " registers");
      kernel->sharedBytes = numberBefore(line, " bytes smem");
      kernel->stackBytes = std::max(kernel->stackBytes, numberBefore(line, " bytes cumulative stack size"));
    }
  }
  return result;
}

}  // namespace tilewright
