// What kernel_probe is asked to do: its command line, expanded into jobs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "reference/operands.h"
#include "runtime/device.h"
#include "templates/template.h"

namespace tilewright::probe {

/// One kernel on one problem.
struct Job {
  const Template* kernelTemplate = nullptr;
  Problem problem;
  Configuration configuration;
};

struct Options {
  std::vector<Job> jobs;
  reference::OperandOptions operands;

  std::string device = "cuda:0";
  DeviceInfo planned;                ///< what the jobs were expanded and are compiled for
  std::filesystem::path cubinCache;  ///< where builds are kept; created if missing
  std::filesystem::path sources;     ///< kernel sources here take the place of the embedded ones
  std::filesystem::path nvrtc;       ///< libnvrtc; empty: search
  bool compileOnly = false;
  bool noBuild = false;  ///< take what the cache holds, from whatever compiler
  bool force = false;    ///< run what spills or serializes wgmma, too

  bool check = true;
  bool time = false;
  bool prepared = false;   ///< prepare the weights in a call of their own
  bool quantized = false;  ///< quantize x in a call of its own, where the kernel takes it
  int identicalRuns = 1;   ///< runs whose outputs must be equal bit by bit
  double budget = 1e8;     ///< multiply-adds of the expectation
  MeasureOptions measure;  ///< of `time`
  double timeoutSeconds = 30;
};

/// Reads the arguments. Prints help and leaves `jobs` empty when asked for it.
Result<Options> parseOptions(int argc, char** argv);

/// "key=value,key=value" over `options`; kInvalidArgument names an unknown key and lists the known ones.
Result<void> applyOperandSettings(std::string_view settings, const Problem& problem,
                                  reference::OperandOptions& options);

}  // namespace tilewright::probe
