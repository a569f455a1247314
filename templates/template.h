// One way to compute an operation, with its space of configurations: the interface that the tuner and the dispatcher
// see.
//
// A template states its rules as data: every constraint has a name and a sentence, so that a refusal can be shown,
// recorded and explained. It never computes what its constraints refuse.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"
#include "base/device_info.h"
#include "base/problem.h"
#include "templates/configuration.h"
#include "templates/launch.h"

namespace tilewright {

class SourceCatalog;

/// A tunable parameter. `values` are in the order in which ties prefer them: simplest first.
struct Parameter {
  std::string name;
  std::string meaning;  ///< with its unit
  std::vector<std::int64_t> values;
};

/// Why a template does not compute a problem, or why a configuration is not built.
struct Refusal {
  std::string constraint;  ///< stable name, such as "head_dim"
  std::string reason;      ///< a sentence with the values: "head_dim is 96, must be 64, 128 or 256"
};

class Template {
 public:
  virtual ~Template() = default;

  /// Stable id "<operation>.<template>".
  virtual std::string_view id() const = 0;
  virtual Operation operation() const = 0;
  /// One sentence for `explain` and listings.
  virtual std::string_view summary() const = 0;

  /// The first rule that problem or device break (operation, precision, target, alignment, shape), or nothing.
  virtual std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo& device) const = 0;
  /// The first rule that a configuration breaks for a problem that is not refused: divisibility, shared memory,
  /// registers. Also called on what a database holds, so it must accept any names and values.
  virtual std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                                      const Configuration& configuration) const = 0;
  /// The parameters; the space is their product, less what the constraints refuse.
  virtual std::vector<Parameter> parameters(const Problem& problem, const DeviceInfo& device) const = 0;
  /// What runs when nothing was tuned. Never refused for a problem that the template does not refuse.
  virtual Configuration defaultConfiguration(const Problem& problem, const DeviceInfo& device) const = 0;
  /// A cost model: orders candidates and chooses between templates before anything is measured. Microseconds.
  virtual double predictMicroseconds(const Problem& problem, const DeviceInfo& device,
                                     const Configuration& configuration) const = 0;

  /// The arithmetic that this plan really uses; never looser than the problem allows.
  virtual Precision precision(const Problem& problem, const Configuration& configuration) const {
    return Precision::kExact;
  }
  /// Whether spills, stack frames and serialized wgmma in a build are refusals (they are for tuned GPU kernels).
  virtual bool demandsCleanBuild() const { return false; }

  /// What must be compiled. The kernels of a plan are numbered over all entries of all requests, in order.
  virtual std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                                  const Configuration& configuration,
                                                  const SourceCatalog& sources) const = 0;

  /// Bytes of scratch memory for one call, 256-byte aligned; contents need not survive between calls. Of a problem with
  /// `linear.prepared` it needs no room for what the preparation fills.
  virtual std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo& device,
                                      const Configuration& configuration) const = 0;
  /// Bytes that a one-time preparation of the weights fills; 0 if the template has none. May depend on
  /// `linear.prepared`, which no build request depends on.
  virtual std::int64_t preparedBytes(const Problem& problem, const DeviceInfo& device,
                                     const Configuration& configuration) const {
    return 0;
  }
  /// How this plan keeps prepared weights: a stable name such as "bounds+s8", in static memory; its parts, joined by
  /// '+', lie one behind the other. The bytes depend on the format, n, k and W alone, so plans with equal ones share
  /// them, and what one plan prepared also serves another whose format is its beginning (servesPrepared()). Empty
  /// exactly if preparedBytes() is 0.
  virtual std::string_view preparedFormat(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration) const {
    return {};
  }
  /// Appends the preparation of the weights into `prepared`, 256-byte aligned.
  virtual void encodePreparation(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                                 const Operands& operands, void* prepared, LaunchList& launches) const {}

  /// How this plan stores activations that are quantized ahead of a call, for plans that share x: a stable name such as
  /// "s8/4096", in static memory. The bytes depend on the format, m, k and x alone. Empty if it takes none.
  virtual std::string_view activationFormat(const Problem& problem, const DeviceInfo& device,
                                            const Configuration& configuration) const {
    return {};
  }
  /// Bytes of m rows of k such activations; 0 without a format.
  virtual std::int64_t activationBytes(const Problem& problem, const DeviceInfo& device,
                                       const Configuration& configuration) const {
    return 0;
  }
  /// Appends the quantization of x, the only operand that is looked at, into `activations`, 256-byte aligned.
  virtual void encodeActivations(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                                 const Operands& operands, void* activations, LaunchList& launches) const {}
  /// As encode(), of a plan with a format, but x is not looked at: its values come from `activations`, which
  /// encodeActivations() of any plan with equal format, m and k has filled. The result has the same bits.
  virtual void encodeQuantized(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                               const Operands& operands, const void* activations, void* workspace, const void* prepared,
                               LaunchList& launches) const {}

  /// Appends the launches of one call. Called on every launch: no allocation, no locks. `prepared` was filled by
  /// encodePreparation() of any plan for equal n and k whose format serves this one's. It is null when the caller keeps
  /// none; then a template that wants it computes it within the call, in its workspace. A problem with
  /// `linear.prepared` is always given it, if preparedBytes() is above 0.
  virtual void encode(const Problem& problem, const DeviceInfo& device, const Configuration& configuration,
                      const Operands& operands, void* workspace, const void* prepared, LaunchList& launches) const = 0;
};

/// All templates of this build, in the fixed order that breaks ties.
std::span<const Template* const> allTemplates();
/// The template of an id, or null.
const Template* findTemplate(std::string_view id);

/// Whether weights that were prepared in the format `given` serve plans of the format `wanted`: it is the same, or
/// begins `given` as whole parts.
bool servesPrepared(std::string_view given, std::string_view wanted);

/// Every configuration of the template's space that its constraints accept, in the order of the parameters' values.
std::vector<Configuration> enumerateConfigurations(const Template& kernelTemplate, const Problem& problem,
                                                   const DeviceInfo& device);

/// The first parameter that a configuration lacks or gives a value outside its list, or an entry that is no parameter:
/// what a template's refusesConfiguration checks before its own rules.
std::optional<Refusal> refusesValues(std::span<const Parameter> parameters, const Configuration& configuration);

/// Refuses spills, stack frames and serialized wgmma of a template that demands a clean build.
std::optional<Refusal> refusesBinary(const Template& kernelTemplate, const Binary& binary);

/// A template with every entry of the problem's alignment and precision rules that GPU and CPU templates share.
std::optional<Refusal> refusesOperation(const Template& kernelTemplate, const Problem& problem);

}  // namespace tilewright
