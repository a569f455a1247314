// What differs between the outputs of two runs that should be the same, so that a report of a rare race says which tile
// it hit and whether a tile, a column or a rounding is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::conformance {

/// All bytes of out (BF16) and of the log-sum-exp (FP32); empty for an output that the problem does not have.
using OutputBits = std::array<std::vector<std::byte>, 2>;

/// Empty if both runs gave the same bits. Else, of the first output that differs: how many values, in which range of
/// elements, the first pair of values and the pair furthest apart. `origins` are the byte offsets of elements 0; what
/// lies before them has negative numbers.
std::string differenceOf(const OutputBits& first, const OutputBits& again, const std::array<std::int64_t, 2>& origins);

}  // namespace tilewright::conformance
