// `tilewright compile`.
#include "tools/verbs.h"

namespace tilewright {

Result<ExitCode> runCompile(const Options& options) {
  return fail(ErrorCode::kUnsupported, "this build has no compiler");
}

}  // namespace tilewright
