// The environment variables that Tilewright reads, all of them: XDG_CACHE_HOME and HOME (the user's database),
// CUDA_PATH and CUDA_HOME (where a CUDA toolkit with libnvrtc is).
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace tilewright {

struct Environment {
  std::filesystem::path cacheHome;  ///< XDG_CACHE_HOME if absolute, else HOME/.cache; empty without both
  std::vector<std::filesystem::path> cudaDirectories;  ///< CUDA_PATH, CUDA_HOME, those that are set
};

Environment readEnvironment();

/// The user's tuning database when --db does not name one: <cache>/tilewright/user.twdb. kNotFound when neither
/// XDG_CACHE_HOME nor HOME is set. The file need not exist.
Result<std::filesystem::path> userDatabasePath(const Environment& environment);

}  // namespace tilewright
