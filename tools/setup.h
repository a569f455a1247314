// What several verbs need before they start: the device that the flags mean, the databases, the compilers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/code_generators.h"
#include "base/device_info.h"
#include "base/result.h"
#include "cache/layers.h"
#include "tools/options.h"

namespace tilewright {

/// "tilewright: LINE" on standard error for each.
void printNotes(const std::vector<std::string>& notes);

/// A device as openDevice() names it, and what it is.
struct PickedDevice {
  std::string name;  ///< "cpu", "cuda:0"; empty when --arch alone names a target
  DeviceInfo info;
};

/// The device of --device, or the first GPU, or the CPU; without --device an --arch needs no device and gives the
/// nominal one of that target. --arch replaces the detected target. Creates no CUDA context. kNotFound for a device
/// that is not there, with what the driver said; kInvalidArgument for a GPU's target on a CPU or the other way round.
Result<PickedDevice> pickDevice(const DeviceFlags& flags);

/// --db and --system-db, or the user's default database, for reading, upper first. A default database that is not there
/// is no layer; one that cannot be read is left out and described in `notes`. Named files must be readable.
Result<DatabaseLayers> openLayers(const Options& options, std::vector<std::string>& notes);

/// The compilers of this build that could be opened.
class CompilerSet {
 public:
  /// Looks for libnvrtc in the environment's CUDA directories too. Never fails: what is missing is in `missing()`.
  static CompilerSet open(const Environment& environment);

  std::vector<const Compiler*> all() const;
  /// The compiler of these requests, or null.
  const Compiler* find(SourceKind kind, std::string_view target) const;
  /// A line for each compiler that could not be opened.
  const std::vector<std::string>& missing() const { return generators_.missing; }
  /// Loads what the tile compiler makes for the CPU; null without it.
  const HostLoader* hostLoader() const { return generators_.hostLoader.get(); }

 private:
  CodeGenerators generators_;
};

}  // namespace tilewright
