// Runs a template on a case on a device and says what is wrong: no GoogleTest in here, so that tests of the tests can
// plant faulty templates and look at what the harness finds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/check.h"
#include "reference/device_operands.h"
#include "runtime/device.h"
#include "runtime/driver/cuda_stream.h"
#include "templates/sources.h"
#include "templates/template.h"
#include "tests/conformance/case.h"
#include "tests/conformance/difference.h"
#include "tests/conformance/options.h"

namespace tilewright::conformance {

/// Makes or finds the binary of a request.
using Build = std::function<Result<Binary>(const BuildRequest& request)>;

struct Outcome {
  std::string excluded;               ///< why nothing ran: the template's refusal; empty if something did
  std::vector<std::string> failures;  ///< "{tile_m=64 ...}: what is wrong"
  int configurations = 0;             ///< that ran
};

/// The case's problem with the alignment of its operands.
Problem problemOf(const Case& each);

/// The configurations that a case tries: the default one, then `spread` others, evenly over the template's space from a
/// start that differs from case to case, so that together the cases visit all of it. A case of every pair, on a GPU:
/// the default one, then as few as a greedy choice needs for every pair of values that some legal configuration has.
std::vector<Configuration> configurationsOf(const Template& kernelTemplate, const Case& each, const DeviceInfo& device,
                                            int spread);

/// Counts of SMs for which cases with flows are planned anew, where a device has more.
inline constexpr std::array kFewerUnits{1, 7, 114};
/// The device as it would be with `units` SMs; 0: as it is.
DeviceInfo withUnits(DeviceInfo device, int units);

class Harness {
 public:
  Harness(Device& device, Build build, Options options);

  const Options& options() const { return options_; }
  const DeviceInfo& info() const { return device_.info(); }

  /// The default configuration and a spread of others, each checked at every output (or at samples, of more than 1
  /// GiB). With `units` the plans are those of a device with so many SMs: their grids are smaller than the card.
  Outcome run(const Template& kernelTemplate, const Case& each, int units = 0);
  /// The same configurations, each of which must give the same bits in a thousand further runs.
  Outcome runRepeatedly(const Template& kernelTemplate, const Case& each);

  /// The default configuration, of a case of every pair all of its configurations, captured as graphs and replayed with
  /// other values and kv lengths in the same buffers. GPUs only.
  Outcome runGraph(const Template& kernelTemplate, const Case& each);
  /// The same configurations on two streams at once, on operands of their own: each gives the bits that it gives alone.
  /// GPUs only.
  Outcome runStreams(const Template& kernelTemplate, const Case& each);
  /// The same configurations on x that was quantized ahead, each with another one for another n that reads the same:
  /// both give the bits that they give on x, on a GPU also as a graph.
  Outcome runShared(const Template& kernelTemplate, const Case& each);
  /// The same configurations on weights that other plans prepared, whose format serves theirs: another configuration,
  /// the same one for more rows, and the defaults of `others`. Each gives the bits that it gives on its own
  /// preparation.
  Outcome runPrepared(const Template& kernelTemplate, const Case& each,
                      std::span<const Template* const> others = allTemplates());

 private:
  /// Operands and expectation of a case; the last one is kept, for the templates that follow.
  struct Data {
    std::string name;
    reference::HostOperands host;
    reference::Expectation expected;
    reference::DeviceOperands operands;
  };
  struct Loaded {
    std::vector<std::unique_ptr<LoadedBinary>> binaries;
    std::vector<KernelHandle> kernels;
  };
  /// A configuration ready to launch, with guarded scratch memory.
  struct Plan {
    const Template* kernelTemplate = nullptr;
    Problem problem;
    DeviceInfo device;
    Configuration configuration;
    Loaded* loaded = nullptr;
    std::size_t workspaceBytes = 0, preparedBytes = 0, activationBytes = 0;
    DeviceBuffer workspace, prepared, activations;  ///< each with a guard behind it

    /// Whether no call of the problem comes without prepared weights.
    bool mustBePrepared() const { return problem.linear.prepared && preparedBytes > 0; }
    std::string_view preparedFormat() const { return kernelTemplate->preparedFormat(problem, device, configuration); }
    std::string_view activationFormat() const {
      return kernelTemplate->activationFormat(problem, device, configuration);
    }
  };
  /// A plan in one of the GPU's flows.
  struct FlowPlan {
    Plan plan;
    std::unique_ptr<CudaStream> stream;  ///< holds its graph
    std::string wrong;                   ///< the first thing that was wrong
  };
  Result<Data> makeData(const Case& each);
  Result<Data*> dataOf(const Case& each);
  Result<Loaded*> load(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device,
                       const Configuration& configuration);
  Result<Plan> prepare(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device,
                       const Configuration& configuration);
  Result<void> enqueue(Plan& plan, const reference::DeviceOperands& operands, StreamHandle stream, bool prepared) {
    return enqueue(plan, operands.operands(), stream, prepared, nullptr);
  }
  /// With `activations`, on those.
  Result<void> enqueue(Plan& plan, const Operands& operands, StreamHandle stream, bool prepared,
                       const void* activations) {
    return enqueueOn(plan, operands, stream, prepared ? plan.prepared.data() : nullptr, activations);
  }
  /// On the given prepared weights and activations; null: on those of the call.
  Result<void> enqueueOn(Plan& plan, const Operands& operands, StreamHandle stream, const void* weights,
                         const void* activations);
  /// One call with all that its problem does not promise: the preparation too, if no call comes without.
  Result<void> enqueueWhole(Plan& plan, const reference::DeviceOperands& operands, StreamHandle stream);
  Result<void> enqueuePreparation(Plan& plan, const Operands& operands, StreamHandle stream);
  /// Into the plan's own activations.
  Result<void> enqueueQuantization(Plan& plan, const Operands& operands, StreamHandle stream);
  /// Empty if nothing was written beyond the plan's scratch memory, else what was.
  Result<std::string> checkGuards(const Plan& plan);
  /// Empty if right, else what is wrong.
  Result<std::string> judge(Plan& plan, const Data& data);
  /// Whether x quantized ahead gives the bits of the run before, for a plan that takes it: empty, or what is wrong.
  Result<std::string> runQuantized(Plan& plan, const Data& data, bool prepared);
  Result<std::string> runConfiguration(Plan& plan, Data& data, int repeats);
  /// `repeats` answers for the default configuration (true) and for the others.
  Outcome runConfigurations(const Template& kernelTemplate, const Case& each, const DeviceInfo& device,
                            const std::function<int(bool isDefault)>& repeats);
  Result<OutputBits> outputBits(const reference::DeviceOperands& operands);
  /// Runs once more into poisoned outputs, by `enqueue`: empty if that gives the bits of the first run, else what
  /// differs.
  Result<std::string> runAgain(const Data& data, const OutputBits& first, const std::function<Result<void>()>& enqueue);
  Result<void> replayGraphs(std::vector<FlowPlan>& plans, const Case& each);
  Result<void> overlapStreams(std::vector<FlowPlan>& plans, const Case& each);
  /// The result: how many pairs of plans there were.
  Result<int> shareActivations(std::vector<FlowPlan>& plans, const Case& each);
  /// Plans of other configurations, rows or templates whose preparation serves a plan of `plans`.
  Result<std::vector<Plan>> preparersOf(const std::vector<FlowPlan>& plans, std::size_t index, const Case& each,
                                        std::span<const Template* const> others);
  /// The result: how many pairs of plans there were.
  Result<int> sharePreparation(std::vector<FlowPlan>& plans, const Case& each, std::span<const Template* const> others);
  /// Runs `body` on the plans of the case's configurations.
  Outcome withPlans(const Template& kernelTemplate, const Case& each,
                    const std::function<Result<void>(std::vector<FlowPlan>&)>& body);

  Device& device_;
  Build build_;
  Options options_;
  SourceCatalog sources_;
  std::optional<Data> data_;
  std::map<std::string, Loaded> loaded_;
  std::string fault_;  ///< after a kernel faulted, every further call on the device fails
};

}  // namespace tilewright::conformance
