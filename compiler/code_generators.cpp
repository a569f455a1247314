#include "compiler/code_generators.h"

#include "compiler/nvrtc/nvrtc_compiler.h"

namespace tilewright {

CodeGenerators openCodeGenerators() {
  CodeGenerators generators;
  if (auto nvrtc = NvrtcCompiler::open()) {
    generators.compilers.push_back(std::move(*nvrtc));
  } else {
    generators.missing.push_back(std::move(nvrtc.error().message));
  }
  return generators;
}

}  // namespace tilewright
