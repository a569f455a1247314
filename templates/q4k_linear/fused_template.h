// What q4k_linear's templates on wgmma share: fused_sm90, exact_sm90 and two_pass_sm90 differ in their tiles and in how
// W comes to the product; activations, splits, epilogue, workspace and launches are the same.
#pragma once

#include "templates/q4k_linear/fused_tile.h"
#include "templates/template.h"

namespace tilewright {

class FusedTemplate : public Template {
 public:
  Operation operation() const override { return Operation::kQ4kLinear; }
  bool demandsCleanBuild() const override { return true; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const override;
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override;
  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override {
    return tile(configuration).predictMicroseconds(problem.linear, device);
  }
  Precision precision(const Problem& problem, const Configuration& configuration) const override;

  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration,
                                          const SourceCatalog& sources) const override;
  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                              const Configuration& configuration) const override;
  std::int64_t preparedBytes(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const override;
  std::string_view preparedFormat(const Problem& problem, const DeviceInfo& device,
                                  const Configuration& configuration) const override;
  void encodePreparation(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                         const Operands& operands, void* prepared, LaunchList& launches) const override;
  std::string_view activationFormat(const Problem& problem, const DeviceInfo& device,
                                    const Configuration& configuration) const override;
  std::int64_t activationBytes(const Problem& problem, const DeviceInfo& device,
                               const Configuration& configuration) const override;
  void encodeActivations(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                         const Operands& operands, void* activations, LaunchList& launches) const override;
  void encodeQuantized(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                       const Operands& operands, const void* activations, void* workspace, const void* prepared,
                       LaunchList& launches) const override;
  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const override {
    encodeQuantized(problem, device, configuration, operands, nullptr, workspace, prepared, launches);
  }

 protected:
  /// The tile of a configuration that has passed refusesValues().
  virtual FusedTile tile(const Configuration& configuration) const = 0;
  /// Values of the parameter `arithmetic` that a problem allows; none refuses the problem.
  virtual std::vector<std::int64_t> arithmetics(Precision precision) const = 0;
  /// The rules of a tile beyond those that all share.
  virtual std::optional<Refusal> refusesTile(const FusedTile& tile, const LinearShape& shape) const { return {}; }

  /// The accepted configuration of least predicted time among `candidates`.
  Configuration fastest(const Problem& problem, const DeviceInfo& device,
                        std::span<const Configuration> candidates) const;
};

/// s8, e4m3, or both, as a precision allows them; nothing for kExact.
std::vector<std::int64_t> byteArithmetics(Precision precision);

}  // namespace tilewright
