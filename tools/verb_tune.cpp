// `tilewright tune`, and the hidden verb of its worker process.
#include <fmt/format.h>

#include "tools/shapes_report.h"
#include "tools/verbs.h"

namespace tilewright {

Result<ExitCode> runTune(const Options& options) {
  const ModelShapes shapes = TW_TRY(shapesOf(options));
  if (options.tune.dryRun) {
    fmt::print("{}", options.json ? shapesListing(shapes) : shapesTable(shapes));
    return kExitSuccess;
  }
  return fail(ErrorCode::kUnsupported, "this build has no tuner");
}

Result<ExitCode> runTuneWorker(const Options& options) {
  return fail(ErrorCode::kUnsupported, "this build has no tuner");
}

}  // namespace tilewright
