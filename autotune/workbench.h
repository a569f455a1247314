// One device, one problem, and the plans that are tried on it: operands with random data, the expected results, loaded
// plans that are verified before they are timed.
//
// The worker process owns a workbench. Nothing here decides anything: which plans to try and when a time is good enough
// is the race's business.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/verification.h"
#include "reference/check.h"
#include "reference/device_operands.h"
#include "runtime/device.h"
#include "templates/template.h"

namespace tilewright::autotune {

struct OpenOptions {
  std::uint64_t seed = 1;
  double sampleBudget = 2e6;  ///< multiply-adds spent on the expected results
};

/// A binary of a plan, and the kernels that the plan takes from it, in the order of the build request.
struct PlanBinary {
  std::shared_ptr<const Binary> binary;
  std::vector<std::string> entries;
};

class Workbench {
 public:
  /// The device must outlive the workbench.
  explicit Workbench(Device& device) : device_(device) {}

  /// Puts operands and expected results of a problem in place; forgets the previous problem and its plans.
  /// kOutOfMemory if they do not fit.
  Result<void> open(const Problem& problem, const OpenOptions& options);

  /// Loads a plan from its binaries (in the order of the template's build requests), runs it once into poisoned outputs
  /// and checks them. An error means that it could not run; a plan that ran and computed wrongly is a Verification.
  Result<Verification> prepare(int plan, const Template& kernelTemplate, const Configuration& configuration,
                               std::span<const PlanBinary> binaries);
  /// Runs a prepared plan once more and checks it again.
  Result<Verification> verify(int plan);
  Result<std::vector<double>> measure(int plan, const MeasureOptions& options);
  /// Unloads a plan.
  void release(int plan);

 private:
  struct Plan {
    const Template* kernelTemplate = nullptr;
    Configuration configuration;
    std::vector<KernelHandle> kernels;
    std::size_t workspaceBytes = 0;
    std::size_t preparedBytes = 0;  ///< 0 too if the problem's calls prepare what they need
  };
  /// Operands with one kind of activations, and what comes out of them.
  struct Case {
    reference::DeviceOperands operands;
    reference::Expectation expected;
  };

  Result<Case> makeCase(const OpenOptions& options, reference::Activations activations);
  Result<const Case*> outlierCase();
  Result<Plan*> find(int plan);
  /// Makes `buffer`, one for all plans, hold `bytes`.
  Result<void> grow(DeviceBuffer& buffer, std::size_t bytes);
  Result<void> run(const Plan& plan, const Operands& operands, StreamHandle stream);
  /// Puts the plan's prepared weights in place, where those of another may be.
  Result<void> prepareWeights(const Plan& plan, const Operands& operands);
  /// Runs the plan on the case and judges; the times in `verification` are the run's own.
  Result<reference::Verdict> check(const Plan& plan, const Case& of, Verification& verification);
  Result<LoadedBinary*> load(const Binary& binary);

  Device& device_;
  Problem problem_;
  OpenOptions options_;
  std::optional<Case> gaussian_;
  std::optional<Case> outliers_;                                 // made when the first lossy plan needs it
  std::map<std::string, std::unique_ptr<LoadedBinary>> loaded_;  // by hash; binaries outlive the problem
  std::map<int, Plan> plans_;
  DeviceBuffer workspace_;  // one for all plans: they run one at a time
  DeviceBuffer prepared_;   // the same; of the plan that is checked or measured
};

}  // namespace tilewright::autotune
