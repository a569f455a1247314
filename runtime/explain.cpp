#include "runtime/explain.h"

#include <cmath>

#include "format/configuration_json.h"
#include "format/problem_json.h"

namespace tilewright {
namespace {

JsonValue orNull(double value) {
  return std::isfinite(value) && value > 0 ? JsonValue(value) : JsonValue();
}

JsonValue layerJson(int layer, const DatabaseLayers& layers) {
  if (layer < 0 || static_cast<std::size_t>(layer) >= layers.databases().size()) return {};
  return layers.databases()[layer]->path().string();
}

JsonValue candidateJson(const Candidate& candidate, const DatabaseLayers& layers) {
  const Margin& margin = candidate.margin;
  JsonValue value = JsonValue::object({
      {"template", candidate.kernelTemplate->id()},
      {"configuration", configurationToJson(candidate.configuration.entries())},
      {"provenance", provenanceName(candidate.provenance)},
      {"reason", candidate.reason},
      {"database", layerJson(candidate.layer, layers)},
      {"median_us", orNull(margin.medianMicroseconds)},
      {"default_us", orNull(margin.defaultMicroseconds)},
      {"runner_up_us", orNull(margin.runnerUpMicroseconds)},
      {"error", margin.medianMicroseconds > 0 && std::isfinite(margin.error) ? JsonValue(margin.error) : JsonValue()},
      {"predicted_us", orNull(candidate.predictedMicroseconds)},
  });
  return value;
}

JsonValue linesJson(std::span<const std::string> lines) {
  return JsonValue::Array(lines.begin(), lines.end());
}

}  // namespace

JsonValue explainJson(const Selection& selection, const DeviceInfo& device, const DatabaseLayers& layers,
                      std::span<const std::string> warnings) {
  JsonValue::Array candidates, refused;
  for (const Candidate& candidate : selection.candidates) candidates.push_back(candidateJson(candidate, layers));
  for (const RefusedCandidate& each : selection.refused) {
    refused.push_back(JsonValue::object({
        {"template", each.templateId},
        {"configuration", each.configuration.empty() ? JsonValue() : JsonValue(each.configuration)},
        {"database", layerJson(each.layer, layers)},
        {"constraint", each.refusal.constraint},
        {"reason", each.refusal.reason},
    }));
  }
  return JsonValue::object({
      {"version", 1},
      {"problem", problemToJson(selection.problem)},
      {"device", deviceKey(device)},
      {"provenance", provenanceName(selection.provenance())},
      {"candidates", std::move(candidates)},
      {"refused", std::move(refused)},
      {"notes", linesJson(selection.notes)},
      {"warnings", linesJson(warnings)},
  });
}

}  // namespace tilewright
