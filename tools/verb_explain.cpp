// `tilewright explain`.
#include "tools/verbs.h"

namespace tilewright {

Result<ExitCode> runExplain(const Options& options) {
  return fail(ErrorCode::kUnsupported, "this build has no dispatcher");
}

}  // namespace tilewright
