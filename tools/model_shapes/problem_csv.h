// CSV lists of problems: a header line with the keys of a problem in JSON, then a problem a line.
//
//   op,n,k,m,precision,count
//   q4k_linear,14336,4096,1,exact,64
//
// An empty cell is a missing key, so that linears and attention can share a table. Blank lines and lines that begin
// with '#' are passed over; a cell may stand in double quotes.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/problem_json.h"

namespace tilewright {

/// kInvalidArgument with the line and, for a cell, its column; rules and messages are those of problemListFromJson.
Result<std::vector<ListedProblem>> problemsFromCsv(std::string_view text);

}  // namespace tilewright
