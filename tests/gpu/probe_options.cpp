#include "tests/gpu/probe_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "format/configuration_json.h"
#include "format/problem_json.h"

namespace tilewright::probe {
namespace {

/// "a=1,b=2" as pairs.
Result<std::vector<std::pair<std::string, std::string>>> splitPairs(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "cannot read '{}': expected key=value", pair);
    }
    pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return pairs;
}

template <typename T>
Result<T> number(std::string_view key, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(ErrorCode::kInvalidArgument, "cannot read {}={}: expected a number", key, text);
  }
  return value;
}

/// A problem as JSON, or as "op=attention,q_heads=16,causal=true,...", which becomes JSON first.
Result<Problem> readProblem(const std::string& text) {
  if (text.starts_with("{")) return parseProblem(text);
  std::string json;
  for (const auto& [key, value] : TW_TRY(splitPairs(text))) {
    // "16" is a name, not a number, where it is an alignment.
    const bool digits = key != "alignment" && value.find_first_not_of("0123456789") == std::string::npos;
    const bool bare = digits || value == "true" || value == "false";
    json += fmt::format("{}\"{}\": {}{}{}", json.empty() ? "" : ", ", key, bare ? "" : "\"", value, bare ? "" : "\"");
  }
  return parseProblem("{" + json + "}");
}

/// "default", "all", or settings (JSON or key=value) over the default.
Result<std::vector<Configuration>> readConfigurations(const std::string& text, const Template& kernelTemplate,
                                                      const Problem& problem, const DeviceInfo& device) {
  Configuration configuration = kernelTemplate.defaultConfiguration(problem, device);
  if (text == "default") return std::vector{configuration};
  if (text == "all") return enumerateConfigurations(kernelTemplate, problem, device);
  ConfigurationEntries entries;
  if (text.starts_with("{")) {
    entries = TW_TRY(parseConfiguration(text));
  } else {
    for (const auto& [key, value] : TW_TRY(splitPairs(text))) {
      entries.emplace_back(key, TW_TRY(number<std::int64_t>(key, value)));
    }
  }
  for (const auto& [name, value] : entries) {
    if (configuration.find(name) == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "{} has no parameter '{}': it has {}", kernelTemplate.id(), name,
                  configuration.text());
    }
    configuration.set(name, value);
  }
  return std::vector{configuration};
}

struct Words {
  std::vector<std::string> templates, problems, configurations, operands;
  std::string jobFile, target;
};

Result<void> addJobs(const std::string& id, const std::string& problemText, const std::string& configurationText,
                     Options& options) {
  const Template* kernelTemplate = findTemplate(id);
  if (kernelTemplate == nullptr) {
    std::string known;
    for (const Template* each : allTemplates()) known += fmt::format("{}{}", known.empty() ? "" : ", ", each->id());
    return fail(ErrorCode::kNotFound, "no template '{}': there are {}", id, known.empty() ? "none" : known);
  }
  const Problem problem = TW_TRY(readProblem(problemText));
  if (const auto refusal = kernelTemplate->refuses(problem, options.planned)) {
    return fail(ErrorCode::kUnsupported, "{} refuses {}: {} ({})", id, toJson(problem), refusal->reason,
                refusal->constraint);
  }
  for (Configuration& configuration :
       TW_TRY(readConfigurations(configurationText, *kernelTemplate, problem, options.planned))) {
    options.jobs.push_back({kernelTemplate, problem, std::move(configuration)});
  }
  return {};
}

/// Lines "TEMPLATE PROBLEM [CONFIGURATION]", blank-separated outside JSON's braces; '#' begins a comment line.
Result<void> addJobFile(const std::string& path, Options& options) {
  std::ifstream stream(path);
  if (!stream) return fail(ErrorCode::kNotFound, "cannot open job file {}", path);
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> words(1);
    int depth = 0;
    for (const char c : line) {
      depth += (c == '{') - (c == '}');
      if (c != ' ' || depth > 0) {
        words.back().push_back(c);
      } else if (!words.back().empty()) {
        words.emplace_back();
      }
    }
    if (words.back().empty()) words.pop_back();
    if (words.empty() || words[0].starts_with("#")) continue;
    if (words.size() < 2) return fail(ErrorCode::kInvalidArgument, "{}: '{}' has no problem", path, line);
    TW_TRY(addJobs(words[0], words[1], words.size() > 2 ? words[2] : "default", options));
  }
  return {};
}

}  // namespace

Result<void> applyOperandSettings(std::string_view settings, const Problem& problem,
                                  reference::OperandOptions& options) {
  using Set = std::function<Result<void>(const std::string& key, const std::string& value)>;
  const auto integer = [](auto& field) -> Set {
    return [&field](const std::string& key, const std::string& value) -> Result<void> {
      field = TW_TRY(number<std::int64_t>(key, value));
      return {};
    };
  };
  const auto choice = [](auto& field, std::vector<std::string> names) -> Set {
    return [&field, names](const std::string& key, const std::string& value) -> Result<void> {
      const auto found = std::ranges::find(names, value);
      if (found == names.end()) {
        return fail(ErrorCode::kInvalidArgument, "{}={}: must be {}", key, value, fmt::join(names, ", "));
      }
      field = static_cast<std::remove_reference_t<decltype(field)>>(found - names.begin());
      return {};
    };
  };
  const AttentionShape& shape = problem.attention;
  const std::map<std::string, Set, std::less<>> settable = {
      {"seed", integer(options.seed)},
      {"base_offset", integer(options.baseOffset)},
      {"x_padding", integer(options.xPadding)},
      {"out_padding", integer(options.outPadding)},
      {"capacity", integer(options.capacity)},
      {"activations",
       choice(options.activations, {"gaussian", "outliers", "zero_rows", "constant_rows", "extremes", "large"})},
      {"weights", choice(options.weights, {"gaussian", "any_bits", "only_mins", "negative_steps"})},
      {"scores", choice(options.scores, {"gaussian", "deeply_negative"})},
      {"weight_scale",
       [&](const std::string& key, const std::string& value) -> Result<void> {
         options.weightScale = TW_TRY(number<double>(key, value));
         return {};
       }},
      {"kv_lens",  // one per batch entry: 5:0:17
       [&](const std::string& key, const std::string& value) -> Result<void> {
         std::istringstream stream(value);
         for (std::string each; std::getline(stream, each, ':');) {
           options.kvLens.push_back(TW_TRY(number<std::int32_t>(key, each)));
         }
         return {};
       }},
      {"layout",
       [&](const std::string& key, const std::string& value) -> Result<void> {
         if (value == "head_major") return {};
         if (value != "row_major") {
           return fail(ErrorCode::kInvalidArgument, "{}={}: must be head_major, row_major", key, value);
         }
         const std::int64_t keys = options.capacity.value_or(shape.kvLen);
         options.qStrides = reference::rowMajorStrides(shape.qHeads, shape.qLen, shape.headDim);
         options.outStrides = options.qStrides;
         options.kStrides = reference::rowMajorStrides(shape.kvHeads, keys, shape.headDim);
         options.vStrides = options.kStrides;
         return {};
       }},
  };
  for (const auto& [key, value] : TW_TRY(splitPairs(settings))) {
    const auto found = settable.find(key);
    if (found == settable.end()) {
      std::string known;
      for (const auto& [name, set] : settable) known += (known.empty() ? "" : ", ") + name;
      return fail(ErrorCode::kInvalidArgument, "unknown operand setting '{}': there are {}", key, known);
    }
    TW_TRY(found->second(key, value));
  }
  return {};
}

Result<Options> parseOptions(int argc, char** argv) {
  Options options;
  Words words;
  bool noCheck = false, noFlush = false;
  CLI::App app("Builds, runs, checks and times single kernels; prints a JSON line for each.");
  app.add_option("template", words.templates, "template ids, such as attention.tma_sm90");
  app.add_option("-p,--problem", words.problems, "problem, JSON or key=value,...; several: each is tried")
      ->allow_extra_args(false);
  app.add_option("-c,--config", words.configurations,
                 "default, all, or settings over the default (JSON or key=value,...); several: each is tried")
      ->allow_extra_args(false);
  app.add_option("--jobs", words.jobFile, "file with lines TEMPLATE PROBLEM [CONFIG]");
  app.add_option("--operands", words.operands, "seed=3,activations=outliers,x_padding=8,kv_lens=5:0:17,...")
      ->allow_extra_args(false);
  app.add_option("--device", options.device, "device")->capture_default_str();
  app.add_option("--target", words.target, "what jobs are expanded and compiled for")->default_str("sm_90a");
  app.add_option("--cubin-cache", options.cubinCache, "folder that keeps builds");
  app.add_option("--sources", options.sources, "repository root whose kernel sources replace the embedded ones");
  app.add_option("--nvrtc", options.nvrtc, "libnvrtc");
  app.add_flag("--compile-only", options.compileOnly, "build and report resources; needs no GPU");
  app.add_flag("--no-build", options.noBuild, "take builds from the cache alone");
  app.add_flag("--force", options.force, "run what spills or serializes wgmma, too");
  app.add_flag("--no-check", noCheck, "do not compare with the reference");
  app.add_flag("--time", options.time, "time with graph replays");
  app.add_flag("--prepared", options.prepared,
               "prepare the weights in a call of their own (as jobs with prepared=true do)");
  app.add_flag("--quantized", options.quantized,
               "quantize x in a call of its own, as for layers that share it; \"us\" is then without");
  app.add_option("--identical", options.identicalRuns, "runs that must agree bit by bit")->capture_default_str();
  app.add_option("--budget", options.budget, "multiply-adds of the reference")->capture_default_str();
  app.add_option("--repeats", options.measure.repeats, "timed runs")->capture_default_str();
  app.add_option("--warmups", options.measure.warmups, "runs before them")->capture_default_str();
  app.add_option("--rest", options.measure.restMilliseconds, "idle milliseconds before them")->capture_default_str();
  app.add_flag("--no-flush", noFlush, "leave the cache as it is between timed runs");
  app.add_option("--timeout", options.timeoutSeconds, "seconds for one job before it is given up")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}", error.what());
  }
  options.check = !noCheck;
  options.measure.flushCache = !noFlush;
  options.planned = TW_TRY(nominalDevice(words.target.empty() ? "sm_90a" : words.target));
  if (options.cubinCache.empty()) options.cubinCache = std::filesystem::temp_directory_path() / "kernel_probe_cubins";

  if (words.configurations.empty()) words.configurations = {"default"};
  for (const std::string& id : words.templates) {
    for (const std::string& problem : words.problems) {
      for (const std::string& configuration : words.configurations)
        TW_TRY(addJobs(id, problem, configuration, options));
    }
  }
  if (!words.jobFile.empty()) TW_TRY(addJobFile(words.jobFile, options));
  if (options.jobs.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no jobs: give a template and --problem, or --jobs");
  }
  for (const std::string& settings : words.operands) {
    TW_TRY(applyOperandSettings(settings, options.jobs.front().problem, options.operands));
  }
  return options;
}

}  // namespace tilewright::probe
