#include "compiler/code_generators.h"

#include "compiler/nvrtc/nvrtc_compiler.h"
#include "compiler/tile/tile_compiler.h"

namespace tilewright {

CodeGenerators openCodeGenerators(const std::vector<std::filesystem::path>& cudaDirectories) {
  CodeGenerators generators;
  if (auto nvrtc = NvrtcCompiler::open({.directories = cudaDirectories})) {
    generators.compilers.push_back(std::move(*nvrtc));
  } else {
    generators.missing.push_back(std::move(nvrtc.error().message));
  }
  auto tile = createTileCompiler();
  auto loader = createHostLoader();
  if (tile && loader) {
    generators.compilers.push_back(std::move(*tile));
    generators.hostLoader = std::move(*loader);
  } else {
    generators.missing.push_back(std::move((tile ? loader.error() : tile.error()).message));
  }
  return generators;
}

}  // namespace tilewright
