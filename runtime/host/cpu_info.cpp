#include "runtime/host/cpu_info.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <oneapi/tbb/info.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>

namespace tilewright {
namespace {

// From the oldest to the newest: each runs the code of those before.
constexpr std::array<std::string_view, 3> kTargets = {"x86-64", "x86-64-v3", "x86-64-v4"};

/// The newest target whose every instruction this CPU and its operating system have (the psABI's micro-architecture
/// levels: v3 is AVX2, FMA, BMI and F16C, v4 adds AVX-512 F, BW, CD, DQ and VL).
std::string_view hostTarget() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return kTargets[2];
  if (__builtin_cpu_supports("x86-64-v3")) return kTargets[1];
  return kTargets[0];
}

/// The brand string, with its runs of blanks collapsed.
std::string modelName() {
  std::array<char, 49> brand{};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    std::array<unsigned, 4> words{};
    if (__get_cpuid(0x80000002u + leaf, &words[0], &words[1], &words[2], &words[3]) == 0) return "x86-64 CPU";
    std::memcpy(brand.data() + 16 * leaf, words.data(), 16);
  }
  std::string name;
  for (const char* c = brand.data(); *c != '\0'; ++c) {
    if (*c != ' ' || (!name.empty() && name.back() != ' ')) name.push_back(*c);
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name.empty() ? "x86-64 CPU" : name;
}

/// The cache that one core sees. sysconf comes second: on machines with several last-level caches it gives their sum.
std::int64_t lastLevelCacheBytes() {
  for (const int index : {3, 2}) {
    std::int64_t kibibytes = 0;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    if (char unit = 0; file >> kibibytes >> unit && unit == 'K' && kibibytes > 0) return kibibytes << 10;
  }
  for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long bytes = sysconf(level); bytes > 0) return bytes;
  }
  return std::int64_t{1} << 20;
}

/// Physical memory, or the control group's limit where that is lower.
std::int64_t memoryBytes() {
  std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

/// Clock in hertz: what the CPU says of itself (leaf 0x16), or 2.5 GHz where it is silent, as under many hypervisors.
double clockHertz() {
  unsigned base = 0, maximum = 0, bus = 0, reserved = 0;
  if (__get_cpuid(0x16, &base, &maximum, &bus, &reserved) != 0 && (base & 0xffff) != 0) return (base & 0xffff) * 1e6;
  return 2.5e9;
}

/// Two fused multiply-add units of FP32 lanes per core; BF16 is widened to FP32.
double flopPerClock(std::string_view target) {
  if (target == "x86-64-v4") return 2 * 16 * 2;
  if (target == "x86-64-v3") return 2 * 8 * 2;
  return 2 * 4;
}

}  // namespace

DeviceInfo describeCpu() {
  DeviceInfo info;
  info.kind = DeviceKind::kCpu;
  info.name = modelName();
  info.target = hostTarget();
  info.unitCount = oneapi::tbb::info::default_concurrency();
  info.l2Bytes = lastLevelCacheBytes();
  info.memoryBytes = memoryBytes();
  // One memory channel's worth, which a few cores of a shared server see.
  info.memoryBytesPerSecond = 20e9;
  info.bf16FlopPerSecond = flopPerClock(info.target) * clockHertz() * info.unitCount;
  return info;
}

bool cpuRuns(std::string_view target, std::string_view cpu) {
  const auto wanted = std::ranges::find(kTargets, target);
  return wanted != kTargets.end() && wanted <= std::ranges::find(kTargets, cpu);
}

}  // namespace tilewright
