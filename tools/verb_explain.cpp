// `tilewright explain`: which kernel would run, from which database, why, by what margin, and what refused the others.
//
// Asks the dispatcher that programs use; opens no device. Whether the kernel's binary is at hand is looked up as a
// program would: in the databases by the request's key, else some compiler has to make it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "format/json_parse.h"
#include "format/listing.h"
#include "format/problem_json.h"
#include "runtime/dispatcher.h"
#include "runtime/explain.h"
#include "templates/sources.h"
#include "tools/problem_text.h"
#include "tools/setup.h"
#include "tools/table.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

struct Explanation {
  Selection selection;
  PickedDevice device;
  DatabaseLayers layers;
  std::vector<std::string> binaries;  ///< where each binary of the first candidate comes from
  std::optional<Record> record;       ///< the measurement of the first candidate, if it won this very problem
};

std::string layerName(const Explanation& explanation, int layer) {
  if (layer < 0) return "";
  return explanation.layers.databases()[static_cast<std::size_t>(layer)]->path().string();
}

// Where the binaries of a plan would come from.
std::vector<std::string> binariesOf(const Candidate& candidate, const DeviceInfo& device, const DatabaseLayers& layers,
                                    const CompilerSet& compilers, std::vector<std::string>& notes) {
  std::vector<std::string> origins;
  const SourceCatalog sources;
  for (const BuildRequest& request :
       candidate.kernelTemplate->buildRequests(candidate.problem, device, candidate.configuration, sources)) {
    if (const auto found = layers.findByRequest(buildKey(request, ""), notes)) {
      origins.push_back(fmt::format("in {}", layers.databases()[found->layer]->path().string()));
    } else if (const Compiler* compiler = compilers.find(request.kind, request.target)) {
      origins.push_back(fmt::format("compiled by {} at first use", compiler->identity()));
    } else {
      origins.push_back(fmt::format("missing: no database has it, and no compiler makes it for {}", request.target));
    }
  }
  return origins;
}

// The record that made a candidate the winner of its problem.
std::optional<Record> recordOf(const Candidate& candidate, const DeviceInfo& device, const DatabaseLayers& layers,
                               std::vector<std::string>& notes) {
  if (candidate.provenance != Provenance::kExact) return std::nullopt;
  const Database& database = *layers.databases()[static_cast<std::size_t>(candidate.layer)];
  auto winners = database.winners(deviceKey(device), notes);
  if (!winners) return std::nullopt;
  const std::string problem = toJson(candidate.problem);
  for (Winner& winner : *winners) {
    if (winner.record.problem == problem) return std::move(winner.record);
  }
  return std::nullopt;
}

// What the tuner keeps beside a record's resources: a real of that name.
std::optional<double> measuredBeside(const Record& record, const char* name) {
  const Result<JsonValue> resources = parseJson(record.resources);
  const JsonValue* value = resources ? resources->find(name) : nullptr;
  if (value == nullptr || value->asReal() == nullptr) return std::nullopt;
  return *value->asReal();
}

// What a lossy plan errs by with outlier channels in x.
std::optional<double> outlierErrorOf(const Record& record) {
  return measuredBeside(record, "outlier_error");
}

// What preparing the weights took.
std::optional<double> preparationOf(const Record& record) {
  return measuredBeside(record, "preparation_us");
}

std::string recordText(const Record& record) {
  std::string text = fmt::format("{}, {} runs, median deviation {:.1f} %", record.date, record.samples,
                                 100 * record.madMicroseconds / record.medianMicroseconds);
  if (record.driverVersion > 0) text += fmt::format(", driver {}", record.driverVersion);
  if (record.powerLimitWatts > 0) text += fmt::format(", {} W", record.powerLimitWatts);
  return text + fmt::format(", {}", record.toolchain);
}

std::string marginText(const Margin& margin) {
  if (margin.medianMicroseconds <= 0) return "";
  std::string text = formatMicroseconds(margin.medianMicroseconds);
  if (margin.defaultMicroseconds > 0) {
    text += fmt::format(", {:.2f}x the default's speed ({})", margin.defaultMicroseconds / margin.medianMicroseconds,
                        formatMicroseconds(margin.defaultMicroseconds));
  }
  if (margin.runnerUpMicroseconds > 0 && margin.runnerUpMicroseconds <= margin.medianMicroseconds) {
    // Ties within noise go to the simpler configuration, whichever median is lower.
    text += fmt::format(", tied with another configuration ({})", formatMicroseconds(margin.runnerUpMicroseconds));
  } else if (margin.runnerUpMicroseconds > 0) {
    text += fmt::format(", {:.1f} % before the next configuration ({})",
                        100 * (margin.runnerUpMicroseconds / margin.medianMicroseconds - 1),
                        formatMicroseconds(margin.runnerUpMicroseconds));
  }
  if (margin.error > 0) text += fmt::format(", error {:.2e}", margin.error);
  return text;
}

std::string kernelText(const Candidate& candidate) {
  return candidate.configuration.empty()
             ? std::string(candidate.kernelTemplate->id())
             : fmt::format("{} {}", candidate.kernelTemplate->id(), candidate.configuration.text());
}

void printCandidates(const Explanation& explanation) {
  const auto& candidates = explanation.selection.candidates;
  const Candidate& first = candidates.front();
  const Precision precision = first.kernelTemplate->precision(first.problem, first.configuration);
  fmt::print("kernel    {}\n", kernelText(first));
  fmt::print("          {}\n", first.kernelTemplate->summary());
  fmt::print("found     {}: {}\n", provenanceName(first.provenance), first.reason);
  if (first.layer >= 0) fmt::print("database  {}\n", layerName(explanation, first.layer));
  if (const std::string margin = marginText(first.margin); !margin.empty()) fmt::print("measured  {}\n", margin);
  if (explanation.record) {
    if (const auto error = outlierErrorOf(*explanation.record)) {
      fmt::print("          error with outlier channels {:.2e}\n", *error);
    }
    fmt::print("recorded  {}\n", recordText(*explanation.record));
  }
  if (first.problem != explanation.selection.problem) fmt::print("runs as   {}\n", problemText(first.problem));
  if (first.problem.isLinear()) fmt::print("computes  {}\n", precisionName(precision));
  const std::int64_t preparedBytes =
      first.kernelTemplate->preparedBytes(first.problem, explanation.device.info, first.configuration);
  if (preparedBytes > 0) {
    const auto time = explanation.record ? preparationOf(*explanation.record) : std::nullopt;
    fmt::print("prepares  {} bytes ({}) from W{}, {}\n", preparedBytes,
               first.kernelTemplate->preparedFormat(first.problem, explanation.device.info, first.configuration),
               time ? fmt::format(" in {}", formatMicroseconds(*time)) : "",
               explanation.selection.problem.linear.prepared ? "once: every call is given them"
                                                             : "in the call, unless it is given them");
  }
  for (const std::string& binary : explanation.binaries) fmt::print("binary    {}\n", binary);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    fmt::print("{}{} ({}: {})\n", i == 1 ? "next      " : "          ", kernelText(candidates[i]),
               provenanceName(candidates[i].provenance), candidates[i].reason);
  }
}

void printText(const Explanation& explanation) {
  const Selection& selection = explanation.selection;
  const DeviceInfo& device = explanation.device.info;
  fmt::print("problem   {}\n", problemText(selection.problem));
  fmt::print("device    {}{} ({}, {} {})\n", explanation.device.name.empty() ? "" : explanation.device.name + ": ",
             device.name, device.target, device.unitCount, device.kind == DeviceKind::kCuda ? "SMs" : "threads");
  if (selection.candidates.empty()) {
    fmt::print("kernel    none: every template refuses the problem\n");
  } else {
    printCandidates(explanation);
  }
  const char* title = "refused   ";
  for (const RefusedCandidate& refused : selection.refused) {
    const std::string configuration = refused.configuration.empty() ? "" : " " + refused.configuration;
    const std::string layer = refused.layer < 0 ? "" : fmt::format(" of {}", layerName(explanation, refused.layer));
    fmt::print("{}{}{}{}: {}: {}\n", title, refused.templateId, configuration, layer, refused.refusal.constraint,
               refused.refusal.reason);
    title = "          ";
  }
  title = "note      ";
  for (const std::string& note : selection.notes) fmt::print("{}{}\n", std::exchange(title, "          "), note);
}

// What only this command looks up of the plan that would run.
void addOrigins(JsonValue& plan, const Explanation& explanation) {
  if (const auto& record = explanation.record) {
    if (const auto error = outlierErrorOf(*record)) plan.add("outlier_error", *error);
    if (const auto time = preparationOf(*record)) plan.add("preparation_us", *time);
    plan.add("date", record->date);
    plan.add("samples", record->samples);
    plan.add("mad_us", record->madMicroseconds);
    plan.add("driver_version", record->driverVersion);
    plan.add("power_limit_watts", record->powerLimitWatts);
    plan.add("toolchain", record->toolchain);
  }
  plan.add("binaries", JsonValue::Array(explanation.binaries.begin(), explanation.binaries.end()));
}

void printJson(const Explanation& explanation) {
  const Selection& selection = explanation.selection;
  JsonValue::Array plans = plansJson(selection, explanation.device.info, explanation.layers);
  if (!selection.candidates.empty()) addOrigins(plans.front(), explanation);
  fmt::print("{}", listingText("plans", plans,
                               {{"problem", problemToJson(selection.problem)},
                                {"device", deviceKey(explanation.device.info)},
                                {"provenance", provenanceName(selection.provenance())}}));
  printNotes(selection.notes);
}

}  // namespace

Result<ExitCode> runExplain(const Options& options) {
  std::vector<std::string> notes;
  Explanation explanation{.device = TW_TRY(pickDevice(options.device)), .layers = TW_TRY(openLayers(options, notes))};
  const Dispatcher dispatcher(explanation.device.info, explanation.layers);
  std::ranges::copy(dispatcher.warnings(), std::back_inserter(notes));
  explanation.selection = dispatcher.select(*options.problem);
  if (!explanation.selection.candidates.empty()) {
    const CompilerSet compilers = CompilerSet::open(options.environment);
    const Candidate& first = explanation.selection.candidates.front();
    explanation.record = recordOf(first, explanation.device.info, explanation.layers, notes);
    explanation.binaries = binariesOf(first, explanation.device.info, explanation.layers, compilers, notes);
  }
  printNotes(notes);
  options.json ? printJson(explanation) : printText(explanation);
  return explanation.selection.candidates.empty() ? kExitNotFound : kExitSuccess;
}

}  // namespace tilewright
