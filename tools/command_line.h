// From arguments to Options. The one place that knows flags, their help and their defaults.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "tools/options.h"

namespace tilewright {

/// What --help and --version print; the program then ends with success.
struct HelpText {
  std::string text;
};

/// The arguments after the program's name. kInvalidArgument with what is wrong with them; for a problem given on the
/// command line also kUnsupported.
Result<std::variant<Options, HelpText>> parseCommandLine(std::span<const char* const> arguments,
                                                         const Environment& environment);

}  // namespace tilewright
