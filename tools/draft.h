// The texts of the command line before they mean anything, and what they mean: ladders, problems, configurations,
// times.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "tools/options.h"

namespace tilewright {

struct Draft {
  Options options;
  std::string rows, queries, keys, batches, precisions;
  std::string problem;                         ///< as JSON
  std::map<std::string, std::string> members;  ///< of a problem, by key, as texts
  std::map<std::string, bool> flags;           ///< of a problem, by key
  std::string configuration;
  std::string budget;
  std::string effort = "normal";
  std::string databaseProblem;
};

enum class MemberKind { kText, kInteger, kFlag };

struct Member {
  const char* key;
  const char* flag;
  MemberKind kind;
  const char* help;
};

/// The keys of a problem with their flags, in canonical order.
std::span<const Member> problemMembers();

/// The options that a draft means. kInvalidArgument naming the flag and the rule; for a problem also kUnsupported.
Result<Options> finishDraft(Draft draft, const Environment& environment);

}  // namespace tilewright
