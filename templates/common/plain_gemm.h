// Host half of the plain CUDA kernels of the two linear operations (plain_gemm.cuh): right for every problem on every
// GPU from sm_75 on. They hold the place of the portable path on GPUs; where a faster template accepts a problem, it
// wins.
#pragma once

#include "templates/template.h"

namespace tilewright {

class PlainGemmTemplate : public Template {
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
  /// Path of the CUDA file and the name of its kernel.
  virtual std::string_view sourceFile() const = 0;
  virtual std::string_view entry() const = 0;
};

}  // namespace tilewright
