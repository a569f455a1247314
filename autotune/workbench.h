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

#include "reference/check.h"
#include "reference/device_operands.h"
#include "runtime/device.h"
#include "templates/template.h"

namespace tilewright::autotune {

struct OpenOptions {
  std::uint64_t seed = 1;
  double sampleBudget = 2e6;  ///< multiply-adds spent on the expected results
};

/// What running a plan once says about its results.
struct Verification {
  bool ok = true;
  std::string what;                    ///< the rule that was broken; empty if ok
  double error = 0;                    ///< normalized RMS against double precision, Gaussian activations
  std::optional<double> outlierError;  ///< of lossy plans: with 0.5 % of the channels at 30 times
  double microseconds = 0;             ///< of the checked run, from launch to end, cold caches included
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
  };
  /// Operands with one kind of activations, and what comes out of them.
  struct Case {
    reference::DeviceOperands operands;
    reference::Expectation expected;
  };

  Result<Case> makeCase(const OpenOptions& options, reference::Activations activations);
  Result<const Case*> outlierCase();
  Result<Plan*> find(int plan);
  Result<void> run(const Plan& plan, const Operands& operands, StreamHandle stream);
  /// Runs the plan on the case and judges; `microseconds` is the run's own time.
  Result<reference::Verdict> check(const Plan& plan, const Case& of, double& microseconds);
  Result<LoadedBinary*> load(const Binary& binary);

  Device& device_;
  Problem problem_;
  OpenOptions options_;
  std::optional<Case> gaussian_;
  std::optional<Case> outliers_;                                 // made when the first lossy plan needs it
  std::map<std::string, std::unique_ptr<LoadedBinary>> loaded_;  // by hash; binaries outlive the problem
  std::map<int, Plan> plans_;
  DeviceBuffer workspace_;  // one for all plans: they run one at a time
};

}  // namespace tilewright::autotune
