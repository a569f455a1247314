// Problems in JSON: the reading half of toJson(Problem), and lists of problems.
//
//   {"op": "q4k_linear", "n": 14336, "k": 4096, "m": 512, "precision": "fp8"}
//   {"op": "attention", "q_heads": 32, "kv_heads": 8, "head_dim": 128, "q_len": 512, "kv_len": 16384, "causal": true}
//
// Sizes are required, flags have the defaults of base/problem.h. Keys of features that no operation has (masks,
// windows, soft capping, paging, ...) are refused by the feature's name, other unknown keys with the list of the
// allowed ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "format/json_value.h"

namespace tilewright {

/// A problem of a model or of a user's list.
struct ListedProblem {
  Problem problem;
  double count = 1;  ///< calls per forward pass: orders a sweep by the time it can save
  std::string use;   ///< what calls it, such as "gate_up"; may be empty

  bool operator==(const ListedProblem&) const = default;
};

/// A valid problem (validate() has passed). kUnsupported for a feature that no operation has, else kInvalidArgument.
/// `path` names the value in messages.
Result<Problem> problemFromJson(const JsonValue& value, std::string path = "");
/// The same from text: the argument of `explain`, a row of a database.
Result<Problem> parseProblem(std::string_view text);

/// An array of problems, or a listing {"version": 1, "problems": [...]} as `tune --dry-run --json` writes it. Beside a
/// problem's own keys an entry may have "count" (a number above 0) and "use" (a string).
Result<std::vector<ListedProblem>> problemListFromJson(const JsonValue& value);

/// toJson(problem) as a tree, to put into a listing.
JsonValue problemToJson(const Problem& problem);
/// The same with "count" and, unless it is empty, "use".
JsonValue listedProblemToJson(const ListedProblem& listed);

/// The keys that a problem of this operation may have, in canonical order.
std::span<const std::string_view> problemKeys(Operation operation);

}  // namespace tilewright
