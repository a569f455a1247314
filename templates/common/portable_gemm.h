// Host half of the portable kernels of the two linear operations: tile programs that compute a [tile_m, tile_n] block
// of out, lowered to the CPU (compiler/tile). Right for every problem; any alignment, any strides of rows.
//
// For up to eight rows the products' lanes run along k and W is read once, in order: memory bound. For more, W is
// packed into panels once per block of rows, and a micro-tile of registers does micro_rows * micro_vectors FMAs per
// step of k.
#pragma once

#include "templates/template.h"

namespace tilewright {

class PortableGemmTemplate : public Template {
 public:
  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const final;
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const final;
  std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const final;
  Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const final;
  double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                             const Configuration& configuration) const final;
  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration, const SourceCatalog& sources) const final;
  std::int64_t workspaceBytes(const Problem&, const DeviceInfo&, const Configuration&) const final { return 0; }
  void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
              const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const final;

 protected:
  /// Values of tile_k, the default first.
  virtual std::vector<std::int64_t> tileKValues() const = 0;
  /// Vector instructions that bring `lanes` weights from memory to f32.
  virtual double instructionsPerWeightVector() const = 0;
  virtual std::string_view entry() const = 0;
};

}  // namespace tilewright
