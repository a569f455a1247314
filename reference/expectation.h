// The double-precision computations behind Expectation, one file per kind of operation.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/check.h"

namespace tilewright::reference {

/// `wanted` distinct indices below `count`, ascending: all of them if they fit, else the edges of the range and of
/// tiles of 8 to 256, first in importance first, then random ones.
std::vector<std::int64_t> pickIndices(std::int64_t count, std::int64_t wanted, std::uint64_t seed);

LinearSamples expectLinear(const HostOperands& operands, const SampleOptions& options);
AttentionSamples expectAttention(const HostOperands& operands, const SampleOptions& options);

}  // namespace tilewright::reference
