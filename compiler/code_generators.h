// All compilers of this build, opened together: what programs that compile start with.
#pragma once

#include "base/code_generators.h"

namespace tilewright {

/// NVRTC, and the tile compiler with its loader for the host. One that cannot be opened is a line in `missing`.
CodeGenerators openCodeGenerators();

}  // namespace tilewright
