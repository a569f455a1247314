#include "runtime/explain.h"

#include "format/configuration_json.h"
#include "format/problem_json.h"

namespace tilewright {
namespace {

void addLayer(JsonValue& value, int layer, const DatabaseLayers& layers) {
  if (layer < 0 || static_cast<std::size_t>(layer) >= layers.databases().size()) return;
  value.add("database", layers.databases()[layer]->path().string());
}

JsonValue candidateJson(const Candidate& candidate, const DeviceInfo& device, const DatabaseLayers& layers,
                        bool chosen) {
  JsonValue value = JsonValue::object({{"status", chosen ? "chosen" : "next"},
                                       {"template", candidate.kernelTemplate->id()},
                                       {"configuration", configurationToJson(candidate.configuration.entries())},
                                       {"provenance", provenanceName(candidate.provenance)},
                                       {"reason", candidate.reason},
                                       {"problem", problemToJson(candidate.problem)}});
  if (candidate.problem.isLinear()) {
    value.add("precision",
              precisionName(candidate.kernelTemplate->precision(candidate.problem, candidate.configuration)));
  }
  const std::string_view preparedFormat =
      candidate.kernelTemplate->preparedFormat(candidate.problem, device, candidate.configuration);
  if (!preparedFormat.empty()) {
    value.add("prepared_format", preparedFormat);
    value.add("prepared_bytes",
              candidate.kernelTemplate->preparedBytes(candidate.problem, device, candidate.configuration));
  }
  addLayer(value, candidate.layer, layers);
  const auto addTime = [&](const char* name, double microseconds) {
    if (microseconds > 0) value.add(name, microseconds);
  };
  addTime("median_us", candidate.margin.medianMicroseconds);
  addTime("default_us", candidate.margin.defaultMicroseconds);
  addTime("runner_up_us", candidate.margin.runnerUpMicroseconds);
  if (candidate.margin.medianMicroseconds > 0) value.add("error", candidate.margin.error);
  addTime("predicted_us", candidate.predictedMicroseconds);
  return value;
}

JsonValue refusedJson(const RefusedCandidate& refused, const DatabaseLayers& layers) {
  JsonValue value = JsonValue::object({{"status", "refused"}, {"template", refused.templateId}});
  if (!refused.configuration.empty()) value.add("configuration", refused.configuration);
  addLayer(value, refused.layer, layers);
  value.add("constraint", refused.refusal.constraint);
  value.add("reason", refused.refusal.reason);
  return value;
}

JsonValue linesJson(std::span<const std::string> lines) {
  return JsonValue::Array(lines.begin(), lines.end());
}

}  // namespace

JsonValue::Array plansJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers) {
  JsonValue::Array plans;
  for (const Candidate& candidate : selection.candidates) {
    plans.push_back(candidateJson(candidate, device, layers, plans.empty()));
  }
  for (const RefusedCandidate& refused : selection.refused) plans.push_back(refusedJson(refused, layers));
  return plans;
}

JsonValue explainJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers,
                      std::span<const std::string> warnings) {
  return JsonValue::object({{"version", 1},
                            {"problem", problemToJson(selection.problem)},
                            {"device", deviceKey(device)},
                            {"provenance", provenanceName(selection.provenance())},
                            {"notes", linesJson(selection.notes)},
                            {"warnings", linesJson(warnings)},
                            {"plans", plansJson(selection, device, layers)}});
}

}  // namespace tilewright
