// libnvrtc, found and opened at run time.
//
// The few functions used are declared here, for NVRTC's C interface has not changed since CUDA 8: neither a toolkit's
// headers nor its libraries are needed to build this.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/shared_library.h"

namespace tilewright {

/// Where to look for libnvrtc.
struct NvrtcOptions {
  /// The file itself. If given, nothing else is tried.
  std::filesystem::path library;
  /// Toolkits (as CUDA_PATH names them), folders that hold the library, or Python environments with NVIDIA's wheels;
  /// tried before the loader's own path, /usr/local/cuda and the system's Python folders.
  std::vector<std::filesystem::path> directories;
};

struct NvrtcLibrary {
  using Program = struct NvrtcProgram*;  ///< nvrtcProgram, opaque
  using Code = int;                      ///< nvrtcResult; 0 is success
  static constexpr Code kSuccess = 0;
  static constexpr Code kInvalidOption = 5;

  /// kUnavailable with every place that was tried.
  static Result<NvrtcLibrary> open(const NvrtcOptions& options);

  SharedLibrary library;
  Code (*version)(int* major, int* minor);
  Code (*supportedArchitectureCount)(int* count);
  Code (*supportedArchitectures)(int* capabilities);
  Code (*createProgram)(Program* program, const char* source, const char* name, int headerCount,
                        const char* const* headers, const char* const* headerNames);
  Code (*compileProgram)(Program program, int optionCount, const char* const* options);
  Code (*destroyProgram)(Program* program);
  Code (*logSize)(Program program, std::size_t* bytes);
  Code (*log)(Program program, char* text);
  Code (*cubinSize)(Program program, std::size_t* bytes);
  Code (*cubin)(Program program, char* bytes);
  Code (*ptxSize)(Program program, std::size_t* bytes);
  Code (*ptx)(Program program, char* text);
  const char* (*errorString)(Code code);
};

}  // namespace tilewright
