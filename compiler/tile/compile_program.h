// A tile program to host code: the compiler without requests and names, for tests and experiments.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/tile/lower_cpu/options.h"
#include "compiler/tile/program.h"

namespace tilewright::tile {

/// An object file for a level of x86-64. The target decides vectorBytes and hasF16c of the options. kUnsupported for
/// another target, kCompile with the rule that the program broke.
Result<std::vector<std::byte>> compileProgram(Program& program, std::string_view target, const CpuOptions& options);

}  // namespace tilewright::tile
