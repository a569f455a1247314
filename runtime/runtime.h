// What a program runs kernels with: a device, database layers, maybe compilers, and the plans made from them.
//
//   auto runtime = Runtime::create({.device = std::move(device), .layers = layers});
//   const Plan* plan = TW_TRY(runtime->bind(problem));       // looks up, loads or compiles; once
//   // Stream-ordered, capturable in a CUDA graph:
//   TW_TRY(runtime->launch(*plan, operands, {workspace, bytes}, stream));
//
// All functions may be called from several threads at once. Plans live as long as the runtime.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/layers.h"
#include "runtime/device.h"
#include "runtime/dispatcher.h"
#include "runtime/kernel_loader.h"
#include "runtime/problem_table.h"
#include "templates/sources.h"

namespace tilewright {

struct RuntimeOptions {
  std::unique_ptr<Device> device;
  DatabaseLayers layers;
  std::shared_ptr<Database> buildCache;    ///< writable: keeps what `compilers` make, for the next start; may be null
  std::vector<const Compiler*> compilers;  ///< outlive the runtime
  std::vector<std::string> missingCompilers;  ///< why others could not be opened, for messages
  std::span<const Template* const> templates = allTemplates();
  const SourceCatalog* sources = nullptr;  ///< outlives the runtime; null: the embedded ones
};

class Runtime;

/// What runs for one problem, ready to launch. Immutable.
class Plan {
 public:
  /// What made it, and what launches it.
  const Runtime& runtime() const { return *runtime_; }
  /// As it was asked for; launches must be of exactly these sizes.
  const Problem& problem() const { return problem_; }
  /// The template, its configuration, and why it was chosen.
  const Candidate& choice() const { return choice_; }
  /// The configuration as text, "tile_m=128 stages=4".
  const std::string& configurationText() const { return configurationText_; }
  /// Where each binary came from.
  const std::vector<std::string>& origins() const { return kernels_.origins; }
  /// Better candidates that could not be loaded, damaged rows, a missing path for misaligned operands.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Scratch memory of one call, bytes, whatever the operands' alignment. It must be aligned to 256 bytes.
  std::int64_t workspaceBytes() const { return workspaceBytes_; }
  /// How prepareWeights() keeps weights, such as "bounds+s8"; empty if the plan has no preparation. A plan runs on what
  /// another one for equal n and k prepared (from the same W) if its format is the same or begins the other's: "bounds"
  /// takes "bounds+s8".
  const std::string& preparedFormat() const { return preparedFormat_; }
  /// What a one-time preparation of the weights fills, aligned to 256 bytes; 0 if the plan has none.
  std::int64_t preparedBytes() const { return preparedBytes_; }
  /// How activations are stored that quantizeActivations() makes, such as "s8/token"; empty if the plan takes none.
  /// Plans with equal formats, m and k (and the same x) share them.
  const std::string& activationFormat() const { return activationFormat_; }
  /// What quantizeActivations() fills, aligned to 256 bytes; 0 without a format.
  std::int64_t activationBytes() const { return activationBytes_; }

 private:
  friend class Runtime;

  const Runtime* runtime_ = nullptr;
  Problem problem_;
  Candidate choice_;
  std::string configurationText_;
  LoadedKernels kernels_;
  std::int64_t workspaceBytes_ = 0;
  std::int64_t ownWorkspaceBytes_ = 0;  // Without the path for misaligned operands.
  std::string preparedFormat_;
  std::int64_t preparedBytes_ = 0;
  std::string activationFormat_;
  std::int64_t activationBytes_ = 0;
  // Runs operands that this plan must not; null if it takes all, or none was found.
  const Plan* anyAlignment_ = nullptr;
  std::vector<std::string> warnings_;
  mutable std::atomic<bool> addressesChecked_ = false;
  mutable std::atomic<bool> activationsChecked_ = false;       // what quantizeActivations() fills
  mutable std::atomic<bool> givenActivationsChecked_ = false;  // what a launch is given
  mutable std::atomic<bool> givenPreparedChecked_ = false;
};

/// The caller's memory of one call, on the device.
struct LaunchBuffers {
  void* workspace = nullptr;
  std::int64_t workspaceBytes = 0;
  /// Filled by prepareWeights, or null; never null if the problem says `prepared` and the plan has a preparation. A
  /// plan without one does not look at it.
  const void* prepared = nullptr;
  const Plan* preparedBy = nullptr;  ///< the plan that filled `prepared`; null: the launched one
  /// Filled by quantizeActivations, or null: then the call quantizes x, if its template does.
  const void* activations = nullptr;
  const Plan* quantizedBy = nullptr;  ///< the plan that filled `activations`
};

class Runtime {
 public:
  /// kInvalidArgument without a device.
  static Result<std::unique_ptr<Runtime>> create(RuntimeOptions options);

  Device& device() const { return *device_; }
  const Dispatcher& dispatcher() const { return dispatcher_; }
  const DatabaseLayers& layers() const { return layers_; }

  /// The plan of a problem if `bind` has made it, else null. No SQL, no allocation, no lock.
  const Plan* find(const PackedProblem& problem) const noexcept { return table_.find(problem); }
  /// The plan of a problem, made at the first call: that one loads and compiles, and may take seconds. The best
  /// candidate that can be loaded is taken. kInvalidArgument for an invalid problem; kUnsupported, naming what refused
  /// and what is missing, if nothing runs it; kCompile, kDevice, kOutOfMemory as they come.
  Result<const Plan*> bind(const Problem& problem);
  /// Binds many, compiling on all cores; goes on behind a failure, and answers with the first one in the list's order.
  Result<void> prepare(std::span<const Problem> problems);

  /// Enqueues one call on the caller's stream; the CPU has finished on return. Allocates and synchronizes nothing.
  /// kInvalidArgument for operands or buffers that break a rule (see operands.h). Misaligned operands of a k16 problem
  /// run on the plan for any alignment, with the same result; kUnsupported if there is none. That plan reads x, which
  /// must be there even if activations are given, and takes no prepared weights.
  Result<void> launch(const Plan& plan, const Operands& operands, const LaunchBuffers& buffers,
                      StreamHandle stream) const;
  /// Looks the problem up and launches; binds it at the first call, which a stream capture must not do.
  Result<void> launch(const Problem& problem, const Operands& operands, const LaunchBuffers& buffers,
                      StreamHandle stream);

  /// Enqueues the one-time preparation of W into `prepared`, of preparedBytes(), for LaunchBuffers::prepared of all
  /// plans that share it. kInvalidArgument if the plan has no preparation, and for a W or a buffer that breaks a rule.
  Result<void> prepareWeights(const Plan& plan, const Operands& operands, void* prepared, std::int64_t preparedBytes,
                              StreamHandle stream) const;

  /// Enqueues the quantization of x into `activations`, of activationBytes(), for LaunchBuffers::activations of all
  /// plans that share x. Of the operands only x and its stride are looked at, and both must be multiples of 16 bytes.
  /// Allocates and synchronizes nothing. kInvalidArgument if the plan has no format, and for an x or a buffer that
  /// breaks a rule.
  Result<void> quantizeActivations(const Plan& plan, const Operands& operands, void* activations,
                                   std::int64_t activationBytes, StreamHandle stream) const;

 private:
  explicit Runtime(RuntimeOptions options);
  Result<std::unique_ptr<Plan>> makePlan(const Problem& problem);
  Result<void> checkAddress(std::string_view name, const void* pointer) const;
  Result<void> checkAddresses(const Plan& plan, const Operands& operands, const LaunchBuffers& buffers) const;

  std::unique_ptr<Device> device_;
  DatabaseLayers layers_;
  std::span<const Template* const> templates_;
  std::unique_ptr<SourceCatalog> embedded_;
  Dispatcher dispatcher_;
  KernelLoader loader_;
  ProblemTable<const Plan> table_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Plan>> plans_;
};

}  // namespace tilewright
