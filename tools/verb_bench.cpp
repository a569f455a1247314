// `tilewright bench`.
#include "tools/verbs.h"

namespace tilewright {

Result<ExitCode> runBench(const Options& options) {
  return fail(ErrorCode::kUnsupported, "this build has no tuner");
}

}  // namespace tilewright
