// All compilers of this build, opened together: what programs that compile start with.
#pragma once

#include <filesystem>
#include <vector>

#include "base/code_generators.h"

namespace tilewright {

/// NVRTC, and the tile compiler with its loader for the host. One that cannot be opened is a line in `missing`.
/// `cudaDirectories` are searched for libnvrtc first.
CodeGenerators openCodeGenerators(const std::vector<std::filesystem::path>& cudaDirectories = {});

}  // namespace tilewright
