// The command line of the conformance programs.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace tilewright::conformance {

struct Options {
  std::string device = "cpu";
  int spread = 1;                ///< configurations per case beside the default one
  int repeats = 1;               ///< runs of the default configuration that must give equal bits, beside the first
  bool huge = false;             ///< cases beyond 2^31 elements too
  double maxFlops = 0;           ///< larger problems are left out; 0: no limit
  double budget = 2e7;           ///< multiply-adds of a case's expectation
  std::filesystem::path cubins;  ///< builds of an earlier run; empty: none are kept
  bool build = true;             ///< whether to compile what `cubins` lacks
  bool compileOnly = false;      ///< fill `cubins` for `target`, run nothing
  std::string target = "sm_90a";
  std::filesystem::path nvrtc;    ///< libnvrtc to open; empty: wherever it is found
  std::filesystem::path sources;  ///< root of a source tree whose kernels replace the embedded ones; empty: none
};

/// Takes its own options out of argv and leaves the rest (GoogleTest's). kInvalidArgument; an Error of kNotFound is the
/// text of --help.
Result<Options> parseOptions(int& argc, char** argv);

}  // namespace tilewright::conformance
