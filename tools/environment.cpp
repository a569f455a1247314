#include "tools/environment.h"

#include <cstdlib>

namespace tilewright {
namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::filesystem::path{} : std::filesystem::path(value);
}

}  // namespace

Environment readEnvironment() {
  Environment environment;
  // The XDG base directory specification: a relative path is invalid and ignored.
  if (auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) {
    environment.cacheHome = std::move(cache);
  } else if (const auto home = variable("HOME"); home.is_absolute()) {
    environment.cacheHome = home / ".cache";
  }
  for (const char* name : {"CUDA_PATH", "CUDA_HOME"}) {
    if (auto directory = variable(name); !directory.empty())
      environment.cudaDirectories.push_back(std::move(directory));
  }
  return environment;
}

Result<std::filesystem::path> userDatabasePath(const Environment& environment) {
  if (environment.cacheHome.empty()) {
    return fail(ErrorCode::kNotFound,
                "no place for the user's tuning database: neither XDG_CACHE_HOME nor HOME is an absolute "
                "path; name the file with --db");
  }
  return environment.cacheHome / "tilewright" / "user.twdb";
}

}  // namespace tilewright
