// The compilers that a runtime may use, and who made them: what crosses from libtilewright_jit to libtilewright.
//
// The two libraries are built from the same sources and share C++ types; `version` is compared before anything else is
// touched, for a library of another version may lay them out otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"

namespace tilewright {

struct CodeGenerators {
  std::vector<std::unique_ptr<Compiler>> compilers;
  std::unique_ptr<HostLoader> hostLoader;  ///< loads what the tile compiler makes for the CPU; may be null
  std::vector<std::string> missing;        ///< a line for each that could not be opened
};

/// Of this build of the libraries: its version and the size of what they share.
inline constexpr std::string_view kCodeGeneratorsVersion = "tilewright jit 1";

}  // namespace tilewright

/// The C interface's handle of it. Its maker frees it.
struct tw_jit {
  std::array<char, 32> version{};  ///< first, and the same in every version of the libraries
  std::size_t bytes = 0;           ///< sizeof(CodeGenerators)
  void (*close)(tw_jit*) = nullptr;
  tilewright::CodeGenerators generators;
};
