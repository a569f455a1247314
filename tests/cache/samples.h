// Records, builds and databases for the tests of cache/ and of what reads it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/hash.h"
#include "base/problem.h"
#include "cache/database.h"

namespace tilewright::samples {

/// A folder of its own for each test, deleted with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tilewright.XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline constexpr const char* kDevice = "cuda|NVIDIA H200|sm_90a|132|";

inline std::string problemText(std::int64_t m) {
  return toJson({.operation = Operation::kQ4kLinear, .linear = {.n = 14336, .k = 4096, .m = m}});
}

inline Record record(std::int64_t m, double median = 12.5, int samples = 15) {
  Record record;
  record.problem = problemText(m);
  record.device = kDevice;
  record.templateId = "q4k_linear.fused_sm90";
  record.configuration = R"({"tile_m": 128, "stages": 4})";
  record.medianMicroseconds = median;
  record.madMicroseconds = 0.25;
  record.samples = samples;
  record.defaultMicroseconds = 20;
  record.runnerUpMicroseconds = 13;
  record.error = 0.0021;
  record.resources = R"({"registers": 168})";
  record.toolchain = "nvrtc 13.0.48";
  record.driverVersion = 13000;
  record.powerLimitWatts = 700;
  record.date = "2026-11-30T01:30:00Z";
  return record;
}

/// A build whose bytes and keys follow from `name`.
inline StoredBuild build(const std::string& name, std::size_t bytes = 3000) {
  StoredBuild build;
  build.templateId = "q4k_linear.fused_sm90";
  build.requestKey = sha256Hex("request " + name);
  build.binary.buildKey = sha256Hex("build " + name);
  build.binary.target = "sm_90a";
  build.binary.compiler = "nvrtc 13.0.48";
  for (std::size_t i = 0; build.binary.bytes.size() < bytes; ++i) {
    for (const char digit : sha256Hex(name + std::to_string(i))) build.binary.bytes.push_back(std::byte(digit));
  }
  build.binary.hash = sha256Hex(build.binary.bytes);
  build.binary.kernels = {{"mainKernel", 168, 0, 0, 1024}, {"fixUp", 32, 8, 16, 0}};
  build.binary.warnings = {"ptxas: first", "ptxas: second"};
  build.date = "2026-11-30T01:30:00Z";
  return build;
}

inline std::unique_ptr<Database> open(const std::filesystem::path& path,
                                      DatabaseAccess access = DatabaseAccess::kCreate) {
  auto database = Database::open(path, {.access = access});
  if (!database) {
    ADD_FAILURE() << database.error().message;
    return nullptr;
  }
  return std::move(*database);
}

/// The winners of a file, opened for reading; a warning is a failure.
inline std::vector<Winner> winnersOf(const std::filesystem::path& path, std::string_view device = kDevice) {
  std::vector<std::string> warnings;
  auto winners = open(path, DatabaseAccess::kRead)->winners(device, warnings);
  EXPECT_TRUE(winners) << winners.error().message;
  EXPECT_TRUE(warnings.empty()) << warnings.front();
  return winners ? *winners : std::vector<Winner>{};
}

}  // namespace tilewright::samples
