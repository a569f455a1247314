// A folder of builds, so that kernels can be compiled on one machine and run on another: <build key>.cubin with a JSON
// file beside it that holds what the log reported, and `compilers`, the identities of those that built them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/build_request.h"

namespace tilewright::probe {

class CubinCache {
 public:
  /// Creates the folder if it is missing; kIo.
  static Result<CubinCache> open(const std::filesystem::path& directory);

  /// The build of a request by any compiler that the folder knows, newest first, or nothing. kCorrupt.
  Result<std::optional<Binary>> find(const BuildRequest& request) const;
  Result<void> store(const Binary& binary);
  /// Puts a compiler first among those that `find` tries.
  void prefer(const std::string& compilerIdentity);

 private:
  explicit CubinCache(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path directory_;
  std::vector<std::string> compilers_;
};

}  // namespace tilewright::probe
