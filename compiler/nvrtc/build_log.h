// Reads what NVRTC and its assembler ptxas say about a build.
//
// With `--ptxas-options=-v` the log of one program looks like this (NVRTC 13.0; nvcc prints the same lines):
//
//   k.cu(8): warning #177-D: variable "z" was declared but never referenced
//   ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ... 'wg'
//   ptxas info    : 0 bytes gmem
//   ptxas info    : Compiling entry function 'wg' for 'sm_90a'
//   ptxas info    : Function properties for wg
//   ptxas         .     696 bytes stack frame, 1372 bytes spill stores, 1400 bytes spill loads
//   ptxas info    : Used 64 registers, used 1 barriers, 696 bytes cumulative stack size, 128 bytes smem
//
// Functions that were not inlined have their own properties after those of the entry that calls them; what they spill
// counts as the entry's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"

namespace tilewright {

struct BuildLog {
  std::vector<KernelResources> kernels;  ///< in the log's order
  /// Every line that is a warning, and every numbered remark of ptxas (C7508, C7511, ...), which it calls "info".
  std::vector<std::string> warnings;
};

BuildLog parseBuildLog(std::string_view log);

}  // namespace tilewright
