#include "autotune/tuning_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "format/json_parse.h"
#include "format/json_value.h"

namespace tilewright::autotune {
namespace {

// Changes when a change of search or measurement makes earlier results worth repeating.
constexpr std::string_view kTunerVersion = "tuner 1";

constexpr std::array kEfforts = {Effort::kQuick, Effort::kNormal, Effort::kFull};

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  return fmt::format("{}", fmt::join(texts, separator));
}

JsonValue kernelsOf(const StoredPlan& plan) {
  JsonValue::Array kernels;
  for (const auto& binary : plan.binaries) {
    for (const KernelResources& kernel : binary->kernels) {
      kernels.push_back(JsonValue::object({{"entry", kernel.entry},
                                           {"registers", kernel.registers},
                                           {"spill_bytes", kernel.spillBytes},
                                           {"stack_bytes", kernel.stackBytes},
                                           {"shared_bytes", kernel.sharedBytes}}));
    }
  }
  return kernels;
}

/// What a record's resources hold: kernels, the interval of the median, what was measured beside it (`Measured` is a
/// winner's report or a loser), the build keys that a refusal is bound to.
template <typename Measured>
std::string resourcesOf(const StoredPlan& plan, const Measured& measured, const std::vector<std::string>& keys) {
  const Statistics& statistics = measured.statistics;
  JsonValue value = JsonValue::object({{"kernels", kernelsOf(plan)}});
  if (statistics.count > 0) value.add("interval_us", JsonValue::Array{statistics.low, statistics.high});
  if (measured.outlierError) value.add("outlier_error", *measured.outlierError);
  if (const auto& preparation = measured.preparation) {
    value.add("prepared_bytes", preparation->bytes);
    value.add("preparation_us", preparation->microseconds);
  }
  if (!keys.empty()) value.add("build_keys", JsonValue::Array(keys.begin(), keys.end()));
  return value.text();
}

void setStatistics(Record& record, const Statistics& statistics) {
  record.medianMicroseconds = statistics.median;
  record.madMicroseconds = statistics.mad;
  record.samples = statistics.count;
}

std::string planKeyOf(std::string_view templateId, std::string_view configuration,
                      const std::vector<std::string>& keys) {
  return fmt::format("{} {} {}", templateId, configuration, joined(keys, " "));
}

}  // namespace

std::string TuningStore::policy(const Problem& problem, Effort effort) const {
  Sha256 hash;
  for (const Template* each : templates_) {
    if (each->operation() != problem.operation || each->refuses(problem, device_)) continue;
    hash.field(each->id());
    const Configuration defaults = each->defaultConfiguration(problem, device_);
    for (const BuildRequest& request : each->buildRequests(problem, device_, defaults, sources_)) {
      hash.field(builder_.keyOf(request));
    }
  }
  return fmt::format("{} {} {}", kTunerVersion, effortName(effort), hash.hexDigest().substr(0, 16));
}

Result<bool> TuningStore::isDone(const Problem& problem, Effort effort) const {
  const std::string text = toJson(problem);
  for (const Effort each : kEfforts) {
    if (each < effort) continue;
    // Asked anew each time: another tuner may have finished it since.
    if (TW_TRY(database_.doneProblems(deviceKey(device_), policy(problem, each))).contains(text)) return true;
  }
  return false;
}

std::string TuningStore::planKey(const StoredPlan& plan) const {
  std::vector<std::string> keys;
  for (const BuildRequest& request : plan.requests) keys.push_back(builder_.keyOf(request));
  return planKeyOf(plan.kernelTemplate->id(), plan.configuration.json(), keys);
}

Result<std::map<std::string, Refusal>> TuningStore::refusals(const Problem& problem) const {
  std::map<std::string, Refusal> found;
  std::vector<std::string> warnings;
  for (const Record& record :
       TW_TRY(database_.records({.problem = toJson(problem), .device = deviceKey(device_)}, warnings))) {
    if (record.status == RecordStatus::kOk) continue;
    const Result<JsonValue> resources = parseJson(record.resources);
    const JsonValue* keys = resources ? resources->find("build_keys") : nullptr;
    if (keys == nullptr || keys->asArray() == nullptr) continue;
    std::vector<std::string> texts;
    for (const JsonValue& each : *keys->asArray()) texts.push_back(each.asString() == nullptr ? "" : *each.asString());
    // The reason is stored as "constraint: sentence".
    const std::size_t colon = record.reason.find(": ");
    Refusal refusal{record.reason.substr(0, colon),
                    colon == std::string::npos ? record.reason : record.reason.substr(colon + 2)};
    found.emplace(planKeyOf(record.templateId, record.configuration, texts), std::move(refusal));
  }
  return found;
}

Record TuningStore::recordOf(const Problem& problem, const StoredPlan& plan) const {
  Record record;
  record.problem = toJson(problem);
  record.device = deviceKey(device_);
  record.templateId = plan.kernelTemplate->id();
  record.configuration = plan.configuration.json();
  record.driverVersion = device_.driverVersion;
  record.powerLimitWatts = device_.powerLimitWatts;
  std::vector<std::string> compilers;
  for (const BuildRequest& request : plan.requests) {
    const Compiler* compiler = builder_.compilerOf(request);
    if (compiler == nullptr) continue;
    std::string identity = compiler->identity();
    if (std::ranges::find(compilers, identity) == compilers.end()) compilers.push_back(std::move(identity));
  }
  record.toolchain = joined(compilers, ", ");
  return record;
}

std::vector<StoredBuild> TuningStore::buildsOf(const StoredPlan& plan) const {
  std::vector<StoredBuild> builds;
  for (std::size_t i = 0; i < plan.binaries.size(); ++i) {
    builds.push_back({.binary = *plan.binaries[i],
                      .requestKey = buildKey(plan.requests[i], ""),
                      .templateId = std::string(plan.kernelTemplate->id())});
  }
  return builds;
}

Result<void> TuningStore::commit(const Problem& problem, const StoredPlan& plan, const WinnerReport& report,
                                 double runnerUp, Effort effort) {
  Record record = recordOf(problem, plan);
  setStatistics(record, report.statistics);
  record.defaultMicroseconds = report.defaultStatistics ? report.defaultStatistics->median : 0;
  record.runnerUpMicroseconds = runnerUp;
  record.error = report.error;
  record.resources = resourcesOf(plan, report, {});
  return database_.commitWinner(record, buildsOf(plan), report.complete ? policy(problem, effort) : std::string());
}

Result<void> TuningStore::addLosers(const Problem& problem, std::span<const Loser> losers) {
  std::vector<Record> records;
  for (const Loser& each : losers) {
    Record record = recordOf(problem, each.plan);
    record.status = each.status;
    record.reason = each.reason;
    record.error = each.error;
    std::vector<std::string> keys;
    if (each.status == RecordStatus::kOk) {
      setStatistics(record, each.statistics);
    } else {
      for (const BuildRequest& request : each.plan.requests) keys.push_back(builder_.keyOf(request));
    }
    record.resources = resourcesOf(each.plan, each, keys);
    records.push_back(std::move(record));
  }
  return database_.addRecords(records);
}

Result<void> TuningStore::addDefaults(const StoredPlan& plan) {
  std::vector<DefaultBuild> defaults;
  for (StoredBuild& build : buildsOf(plan)) {
    const BuildRequest& request = plan.requests[defaults.size()];
    defaults.push_back(
        {std::move(build), fmt::format("{} {}", joined(request.entries, " "), describeParameters(request))});
  }
  return database_.addDefaultBuilds(defaults);
}

Result<void> TuningStore::addBuilds(const StoredPlan& plan) {
  return database_.addBuilds(buildsOf(plan));
}

}  // namespace tilewright::autotune
