// `tilewright devices`: what this machine has, and what winners are keyed by.
#include <fmt/format.h>

#include "format/listing.h"
#include "runtime/device.h"
#include "tools/setup.h"
#include "tools/table.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

JsonValue deviceToJson(std::string_view name, const DeviceInfo& device) {
  JsonValue value = JsonValue::object({{"device", name},
                                       {"key", deviceKey(device)},
                                       {"name", device.name},
                                       {"target", device.target},
                                       {"units", device.unitCount},
                                       {"memory_bytes", device.memoryBytes},
                                       {"l2_bytes", device.l2Bytes},
                                       {"memory_bytes_per_second", device.memoryBytesPerSecond},
                                       {"bf16_flop_per_second", device.bf16FlopPerSecond}});
  if (device.kind == DeviceKind::kCpu) return value;
  value.add("compute_capability", fmt::format("{}.{}", device.computeMajor, device.computeMinor));
  if (!device.migProfile.empty()) value.add("mig_profile", device.migProfile);
  value.add("shared_bytes_per_block", device.sharedBytesPerBlock);
  value.add("shared_bytes_per_unit", device.sharedBytesPerUnit);
  value.add("registers_per_unit", device.registersPerUnit);
  value.add("driver_version", device.driverVersion);
  value.add("power_limit_watts", device.powerLimitWatts);
  return value;
}

}  // namespace

Result<ExitCode> runDevices(const Options& options) {
  std::vector<std::string> problems;
  const auto devices = listDevices(problems);
  printNotes(problems);
  if (options.json) {
    JsonValue::Array entries;
    for (const auto& [name, device] : devices) entries.push_back(deviceToJson(name, device));
    fmt::print("{}", listingText("devices", entries));
    return kExitSuccess;
  }
  using Side = Table::Side;
  Table table(
      {{"device"}, {"name"}, {"target"}, {"units", Side::kRight}, {"memory", Side::kRight}, {"cache", Side::kRight}});
  for (const auto& [name, device] : devices) {
    const std::string slice = device.migProfile.empty() ? "" : fmt::format(" ({})", device.migProfile);
    table.add({name, device.name + slice, device.target, fmt::format("{}", device.unitCount),
               formatBytes(static_cast<double>(device.memoryBytes)), formatBytes(static_cast<double>(device.l2Bytes))});
  }
  fmt::print("{}", table.text());
  return kExitSuccess;
}

}  // namespace tilewright
