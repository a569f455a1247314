// One function a verb. Each prints its results to standard output, notes and progress to standard error, and returns
// the exit code; an error is printed by the caller as "tilewright: MESSAGE", with its log below.
#pragma once

#include "base/result.h"
#include "tools/exit_code.h"
#include "tools/options.h"

namespace tilewright {

Result<ExitCode> runTune(const Options& options);
Result<ExitCode> runBench(const Options& options);
Result<ExitCode> runExplain(const Options& options);
Result<ExitCode> runDatabase(const Options& options);
Result<ExitCode> runDevices(const Options& options);
Result<ExitCode> runCompile(const Options& options);
/// The process that measures for `tune` and `bench`; hidden from --help.
Result<ExitCode> runTuneWorker(const Options& options);

}  // namespace tilewright
