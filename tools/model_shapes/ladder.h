// Ladders: the sizes at which a shape is tuned, as --m, --q, --kv and --batch take them.
//   "1,2,64"        a list
//   "64:4096:x2"    from 64 up to 4096, each twice the one before
//   "128:512:+128"  from 128 up to 512 in steps of 128
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tilewright {

/// Ascending and without duplicates. kInvalidArgument, naming `flag`, for anything else than the forms above, sizes
/// below `minimum` or above 2^40, and more than 1000 sizes.
Result<std::vector<std::int64_t>> parseLadder(std::string_view flag, std::string_view text, std::int64_t minimum);

}  // namespace tilewright
