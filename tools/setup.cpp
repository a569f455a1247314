#include "tools/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "compiler/code_generators.h"
#include "runtime/device.h"
#include "tools/table.h"

namespace tilewright {

void printNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "tilewright: {}\n", printable(note));
}

Result<PickedDevice> pickDevice(const DeviceFlags& flags) {
  if (flags.device.empty() && !flags.arch.empty()) return PickedDevice{"", TW_TRY(nominalDevice(flags.arch))};
  std::vector<std::string> problems;
  const auto devices = listDevices(problems);
  const auto device = flags.device.empty()
                          ? devices.begin()
                          : std::ranges::find(devices, flags.device, [](const auto& each) { return each.first; });
  if (device == devices.end()) {
    // Where the driver is missing, nobody knows what devices there are.
    return fail(problems.empty() ? ErrorCode::kNotFound : ErrorCode::kUnavailable, "no device {}{}{}", flags.device,
                problems.empty() ? "" : ": ", fmt::join(problems, "; "));
  }
  PickedDevice chosen{device->first, device->second};
  if (!flags.arch.empty()) {
    const DeviceInfo nominal = TW_TRY(nominalDevice(flags.arch));
    if (nominal.kind != chosen.info.kind) {
      return fail(ErrorCode::kInvalidArgument, "--arch {} is no target of --device {}", flags.arch, flags.device);
    }
    chosen.info.target = flags.arch;
  }
  return chosen;
}

Result<DatabaseLayers> openLayers(const Options& options, std::vector<std::string>& notes) {
  std::vector<std::shared_ptr<const Database>> layers;
  const auto add = [&](const std::filesystem::path& path) -> Result<void> {
    layers.push_back(TW_TRY(Database::open(path)));
    std::ranges::copy(layers.back()->notes(), std::back_inserter(notes));
    return {};
  };
  if (options.databases.user) {
    TW_TRY(add(*options.databases.user));
  } else if (const auto path = userDatabasePath(options.environment); !path) {
    notes.push_back(path.error().message);
  } else if (const auto added = add(*path); !added && added.error().code != ErrorCode::kNotFound) {
    notes.push_back(added.error().message + "; going on without it");
  }
  for (const auto& path : options.databases.systems) TW_TRY(add(path));
  return DatabaseLayers(std::move(layers));
}

CompilerSet CompilerSet::open(const Environment& environment) {
  CompilerSet set;
  set.generators_ = openCodeGenerators(environment.cudaDirectories);
  return set;
}

std::vector<const Compiler*> CompilerSet::all() const {
  std::vector<const Compiler*> compilers;
  for (const auto& compiler : generators_.compilers) compilers.push_back(compiler.get());
  return compilers;
}

const Compiler* CompilerSet::find(SourceKind kind, std::string_view target) const {
  const auto handles = [&](const auto& each) { return each->handles(kind, target); };
  const auto compiler = std::ranges::find_if(generators_.compilers, handles);
  return compiler == generators_.compilers.end() ? nullptr : compiler->get();
}

}  // namespace tilewright
