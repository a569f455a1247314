// The CUDA sources of the templates, embedded into the library at build time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"

namespace tilewright {

class SourceCatalog {
 public:
  /// The embedded sources.
  SourceCatalog();
  /// The embedded sources, with each file that exists below `directory` (the repository's root) read from there
  /// instead, so that a kernel can be edited without rebuilding the library.
  static Result<SourceCatalog> withOverrides(const std::filesystem::path& directory);

  /// The text of a file, such as "templates/attention/tma_sm90.cu"; an assertion if there is none of this name.
  const std::string& text(std::string_view name) const;
  /// The files that `name` includes, directly or not, sorted by name; without `name` itself.
  std::vector<SourceFile> includesOf(std::string_view name) const;

 private:
  const SourceFile* find(std::string_view name) const;

  std::vector<SourceFile> files_;
};

/// Lines "constexpr int kTileM = 128;" for parameters {"tile_m", 128}, which a CUDA main file puts before its #include.
std::string parameterPrelude(const std::vector<std::pair<std::string, std::string>>& parameters);

}  // namespace tilewright
