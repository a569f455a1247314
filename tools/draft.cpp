#include "tools/draft.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/device_info.h"
#include "format/configuration_json.h"
#include "format/problem_json.h"
#include "tools/model_shapes/ladder.h"

namespace tilewright {
namespace {

constexpr Member kMembers[] = {
    {"op", "--op", MemberKind::kText, "q4k_linear, linear or attention"},
    {"n", "--n", MemberKind::kInteger, "linear: rows of W, columns of the result"},
    {"k", "--k", MemberKind::kInteger, "linear: columns of W and of x"},
    {"m", "--m", MemberKind::kInteger, "linear: rows of x (tokens)"},
    {"precision", "--precision", MemberKind::kText, "q4k_linear: loosest arithmetic allowed: exact, fp8, int8 or fast"},
    {"bias", "--bias", MemberKind::kFlag, "linear: with a bias"},
    {"prepared", "--prepared", MemberKind::kFlag, "q4k_linear: every call is given weights that were prepared once"},
    {"dtype", "--dtype", MemberKind::kText, "attention: bf16"},
    {"batch", "--batch", MemberKind::kInteger, "attention: sequences"},
    {"q_heads", "--q-heads", MemberKind::kInteger, "attention: query heads"},
    {"kv_heads", "--kv-heads", MemberKind::kInteger, "attention: key-value heads"},
    {"head_dim", "--head-dim", MemberKind::kInteger, "attention: elements of a head"},
    {"q_len", "--q-len", MemberKind::kInteger, "attention: query rows"},
    {"kv_len", "--kv-len", MemberKind::kInteger, "attention: keys"},
    {"causal", "--causal", MemberKind::kFlag, "attention: causal, aligned bottom-right"},
    {"lse", "--lse", MemberKind::kFlag, "attention: with the log-sum-exp"},
    {"alignment", "--alignment", MemberKind::kText, "16 (bytes, the default) or any"},
};

Result<std::vector<Precision>> precisionsOf(std::string_view text) {
  std::vector<Precision> precisions;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto precision = precisionFromName(text.substr(0, comma));
    if (!precision) {
      return fail(ErrorCode::kInvalidArgument, "--precision: '{}' must be exact, fp8, int8 or fast",
                  text.substr(0, comma));
    }
    if (std::ranges::find(precisions, *precision) == precisions.end()) precisions.push_back(*precision);
    if (comma == std::string_view::npos) return precisions;
    text.remove_prefix(comma + 1);
  }
}

Result<void> readShapes(Draft& draft) {
  ShapeOptions& shapes = draft.options.shapes;
  if (!draft.rows.empty()) shapes.rows = TW_TRY(parseLadder("--m", draft.rows, 0));
  if (!draft.queries.empty()) shapes.queries = TW_TRY(parseLadder("--q", draft.queries, 0));
  if (!draft.keys.empty()) shapes.keys = TW_TRY(parseLadder("--kv", draft.keys, 0));
  if (!draft.batches.empty()) shapes.batches = TW_TRY(parseLadder("--batch", draft.batches, 1));
  if (!draft.precisions.empty()) shapes.precisions = TW_TRY(precisionsOf(draft.precisions));
  return {};
}

Result<std::optional<Problem>> problemFromFlags(const Draft& draft) {
  JsonValue value{JsonValue::Object{}};
  for (const Member& member : problemMembers()) {
    if (member.kind == MemberKind::kFlag) {
      const auto flag = draft.flags.find(member.key);
      if (flag != draft.flags.end() && flag->second) value.add(member.key, true);
      continue;
    }
    const auto text = draft.members.find(member.key);
    if (text == draft.members.end() || text->second.empty()) continue;
    if (member.kind == MemberKind::kText) {
      value.add(member.key, text->second);
      continue;
    }
    std::int64_t size = 0;
    const char* end = text->second.data() + text->second.size();
    if (const auto read = std::from_chars(text->second.data(), end, size); read.ec != std::errc{} || read.ptr != end) {
      return fail(ErrorCode::kInvalidArgument, "{}: '{}' must be a 64-bit integer", member.flag, text->second);
    }
    value.add(member.key, size);
  }
  if (value.asObject()->empty()) return std::nullopt;
  return TW_TRY(problemFromJson(value));
}

Result<void> readProblem(Draft& draft) {
  draft.options.problem = TW_TRY(problemFromFlags(draft));
  if (draft.problem.empty()) return {};
  if (draft.options.problem) {
    return fail(ErrorCode::kInvalidArgument, "the problem is given both as JSON and by flags; use one of them");
  }
  auto problem = parseProblem(draft.problem);
  if (!problem) {
    problem.error().message = fmt::format("cannot read the problem: {}", problem.error().message);
    return std::unexpected(std::move(problem).error());
  }
  draft.options.problem = *problem;
  return {};
}

Result<double> budgetOf(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const double seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc{} || seconds == 0 || !(value >= 0) || value * seconds > 1e9) {
    return fail(ErrorCode::kInvalidArgument, "--budget: '{}' must be a time such as 90, 90s, 10m or 2h", text);
  }
  return value * seconds;
}

Result<void> checkDevice(const DeviceFlags& flags) {
  if (!flags.arch.empty()) TW_TRY(nominalDevice(flags.arch));
  const std::string_view device = flags.device;
  const std::string_view number = device.starts_with("cuda:") ? device.substr(5) : std::string_view{};
  const bool isNumber = !number.empty() && number.size() < 6 &&
                        std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c); });
  if (device.empty() || device == "cpu" || isNumber) return {};
  return fail(ErrorCode::kInvalidArgument, "--device: '{}' must be cpu or cuda:N", device);
}

Result<void> checkVerb(const Options& options) {
  const bool needsProblem = options.verb == Verb::kExplain || options.verb == Verb::kCompile;
  if (needsProblem && !options.problem) {
    return fail(ErrorCode::kInvalidArgument, "no problem: give it as JSON, or by flags from --op on");
  }
  if (options.verb == Verb::kTune && options.modelShapes.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no problems: name a model with --model-shapes");
  }
  if (options.verb == Verb::kBench && options.modelShapes.empty() && !options.problem) {
    return fail(ErrorCode::kInvalidArgument, "no problems: give one as JSON, or name a model with --model-shapes");
  }
  if (options.problem && options.shapes.prepared) {
    return fail(ErrorCode::kInvalidArgument,
                R"(--prepared is for the problems of --model-shapes; in JSON, say "prepared": true)");
  }
  if (options.configuration && options.templateId.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--config needs --template");
  }
  if (options.tune.dryRun && options.tune.compileOnly) {
    return fail(ErrorCode::kInvalidArgument, "--dry-run and --compile-only exclude each other");
  }
  return {};
}

}  // namespace

std::span<const Member> problemMembers() {
  return kMembers;
}

Result<Options> finishDraft(Draft draft, const Environment& environment) {
  TW_TRY(readShapes(draft));
  TW_TRY(readProblem(draft));
  Options& options = draft.options;
  if (!draft.configuration.empty()) {
    auto entries = parseConfiguration(draft.configuration);
    if (!entries) return fail(ErrorCode::kInvalidArgument, "--config: {}", entries.error().message);
    options.configuration = Configuration(std::move(*entries));
  }
  options.tune.effort = autotune::effortFromName(draft.effort).value_or(autotune::Effort::kNormal);
  if (!draft.budget.empty()) options.tune.budgetSeconds = TW_TRY(budgetOf(draft.budget));
  if (!draft.databaseProblem.empty()) options.database.problem = toJson(TW_TRY(parseProblem(draft.databaseProblem)));
  TW_TRY(checkDevice(options.device));
  TW_TRY(checkVerb(options));
  options.environment = environment;
  return std::move(options);
}

}  // namespace tilewright
