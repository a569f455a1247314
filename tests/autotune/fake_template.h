// A template of planted behaviour over a small space, for tests that need no kernel.
#pragma once

#include <string>
#include <utility>

#include "templates/template.h"

namespace tilewright::autotune {

/// What a preparation of FakeTemplate's q4k_linear fills: `tile` + `stages` floats that say whose it is, and W in
/// floats.
inline float preparedMark(std::int64_t tile, std::int64_t stages) {
  return static_cast<float>(10 * tile + stages);
}

/// Two parameters: tile (1, 2, 4, 8) and stages (1, 2); stages = 2 with tile = 8 breaks the constraint "shared_memory".
/// Predicts 100 / tile + stages microseconds, times `scale`. Of q4k_linear it prepares the weights.
class FakeTemplate : public Template {
 public:
  FakeTemplate(std::string id, double scale, Operation operation = Operation::kLinear)
      : id_(std::move(id)), scale_(scale), operation_(operation) {}

  std::string_view id() const override { return id_; }
  Operation operation() const override { return operation_; }
  std::string_view summary() const override { return "a template of planted behaviour"; }
  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo&) const override {
    if (auto refusal = refusesOperation(*this, problem)) return refusal;
    if (!refusal.constraint.empty()) return refusal;
    return std::nullopt;
  }
  std::optional<Refusal> refusesConfiguration(const Problem&, const DeviceInfo&,
                                              const Configuration& configuration) const override {
    const std::int64_t* tile = configuration.find("tile");
    const std::int64_t* stages = configuration.find("stages");
    if (tile == nullptr || stages == nullptr) return Refusal{"parameters", "tile or stages is missing"};
    if (*tile == 8 && *stages == 2) return Refusal{"shared_memory", "tile 8 with 2 stages needs more than there is"};
    return std::nullopt;
  }
  std::vector<Parameter> parameters(const Problem&, const DeviceInfo&) const override {
    return {{"tile", "columns", {1, 2, 4, 8}}, {"stages", "buffers", {1, 2}}};
  }
  Configuration defaultConfiguration(const Problem&, const DeviceInfo&) const override {
    return Configuration({{"tile", 2}, {"stages", 1}});
  }
  double predictMicroseconds(const Problem&, const DeviceInfo&, const Configuration& configuration) const override {
    return scale_ * (100.0 / static_cast<double>(configuration["tile"]) + static_cast<double>(configuration["stages"]));
  }
  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration, const SourceCatalog&) const override {
    BuildRequest request{.kind = SourceKind::kTile,
                         .templateId = id_,
                         .source = id_ + sourceVersion,
                         .target = device.target,
                         .entries = {"run"}};
    for (const auto& [name, value] : configuration.entries())
      request.parameters.emplace_back(name, fmt::format("{}", value));
    return {request};
  }
  std::int64_t workspaceBytes(const Problem&, const DeviceInfo&, const Configuration&) const override { return 256; }
  std::int64_t preparedBytes(const Problem& problem, const DeviceInfo&,
                             const Configuration& configuration) const override {
    if (operation_ != Operation::kQ4kLinear) return 0;
    return 4 * (configuration["tile"] + configuration["stages"] + problem.linear.n * problem.linear.k);
  }
  void encodePreparation(const Problem& problem, const DeviceInfo&, const Configuration& configuration,
                         const Operands& operands, void* prepared, LaunchList& launches) const override {
    addLaunch(problem, configuration, operands, prepared, true, launches);
  }
  void encode(const Problem& problem, const DeviceInfo&, const Configuration& configuration, const Operands& operands,
              void* workspace, const void* prepared, LaunchList& launches) const override {
    addLaunch(problem, configuration, operands, prepared, false, launches);
  }

  Refusal refusal;            ///< of every problem, unless its name is empty
  std::string sourceVersion;  ///< part of the source, to change it

 private:
  static void addLaunch(const Problem& problem, const Configuration& configuration, const Operands& operands,
                        const void* prepared, bool isPreparation, LaunchList& launches) {
    Launch& launch = launches.addKernel(0, {}, {});
    launch.arguments.value(configuration["tile"]);
    launch.arguments.value(configuration["stages"]);
    launch.arguments.value(&problem);
    launch.arguments.value(&operands);
    launch.arguments.pointer(prepared);
    launch.arguments.value(std::int64_t{isPreparation});
  }

  std::string id_;
  double scale_;
  Operation operation_;
};

}  // namespace tilewright::autotune
