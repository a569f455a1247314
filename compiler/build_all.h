// Builds many requests at once, on as many threads as asked for.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/build_request.h"

namespace tilewright {

/// Results in the order of the requests, each built by one thread; `jobs` threads at most and no more than cores, 0 for
/// one per core. `onBuilt`, if given, is called for each request as soon as it is done, with its index, never by two
/// threads at once; a false from it starts no further builds: those left answer kUnavailable.
std::vector<Result<Binary>> buildAll(
    const Compiler& compiler, std::span<const BuildRequest> requests, int jobs = 0,
    const std::function<bool(std::size_t index, const Result<Binary>& binary)>& onBuilt = {});

}  // namespace tilewright
