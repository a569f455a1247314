// A device, a template and a compiler that do nothing but remember, for tests of the dispatcher and the runtime.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cache/database.h"
#include "runtime/device.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright::fakes {

inline DeviceInfo deviceInfo() {
  DeviceInfo device = *nominalDevice("sm_90a");
  device.memoryBytes = std::int64_t{1} << 36;
  device.driverVersion = 13000, device.powerLimitWatts = 700;
  return device;
}

/// Keeps what it was asked to launch. Kernels are named by their entry.
class FakeDevice final : public Device {
 public:
  struct Log {
    std::mutex mutex;
    std::vector<std::string> launches;  ///< "entry(grid.x)"
    std::set<const void*> foreign;      ///< addresses that are not the device's
    std::atomic<int> loads = 0;
    int addressChecks = 0;
    bool keep = true;  ///< benchmarks launch too often to keep anything
  };

  explicit FakeDevice(std::shared_ptr<Log> log, DeviceInfo info = deviceInfo())
      : log_(std::move(log)), info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }

  Result<std::unique_ptr<LoadedBinary>> load(const Binary& binary) override {
    if (sha256Hex(binary.bytes) != binary.hash) return fail(ErrorCode::kCorrupt, "hash");
    ++log_->loads;
    auto loaded = std::make_unique<Code>();
    for (const KernelResources& kernel : binary.kernels)
      loaded->entries.push_back(std::make_unique<std::string>(kernel.entry));
    return loaded;
  }
  Result<KernelHandle> find(LoadedBinary& binary, std::string_view entry) override {
    for (const auto& each : static_cast<Code&>(binary).entries) {
      if (*each == entry) return KernelHandle{each.get()};
    }
    return fail(ErrorCode::kNotFound, "no entry {}", entry);
  }
  Result<void> launch(LaunchList& launches, std::span<const KernelHandle> kernels, StreamHandle) override {
    const std::scoped_lock lock(log_->mutex);
    if (!log_->keep) return {};
    for (const Launch& launch : launches.launches()) {
      log_->launches.push_back(
          fmt::format("{}({})", *static_cast<std::string*>(kernels[launch.kernel].function), launch.grid.x));
    }
    return {};
  }
  Result<void> checkAddress(const void* address) const override {
    const std::scoped_lock lock(log_->mutex);
    ++log_->addressChecks;
    if (log_->foreign.contains(address)) {
      return fail(ErrorCode::kInvalidArgument, "{} is not memory of {}", address, info_.name);
    }
    return {};
  }

  Result<DeviceBuffer> allocate(std::size_t) override { return fail(ErrorCode::kUnsupported, "fake"); }
  Result<void> copyToDevice(void*, const void*, std::size_t) override { return fail(ErrorCode::kUnsupported, "fake"); }
  Result<void> copyToHost(void*, const void*, std::size_t) override { return fail(ErrorCode::kUnsupported, "fake"); }
  Result<void> fill(void*, std::uint8_t, std::size_t) override { return fail(ErrorCode::kUnsupported, "fake"); }
  Result<void> synchronize() override { return {}; }
  Result<std::vector<double>> measure(const std::function<Result<void>(StreamHandle)>&,
                                      const MeasureOptions&) override {
    return fail(ErrorCode::kUnsupported, "fake");
  }

 private:
  struct Code final : LoadedBinary {
    std::vector<std::unique_ptr<std::string>> entries;
  };

  std::shared_ptr<Log> log_;
  DeviceInfo info_;
};

/// Predicts `microseconds`, refuses tile sizes above `maximumTile`, and k16 templates refuse problems of any alignment.
class FakeTemplate final : public Template {
 public:
  FakeTemplate(std::string id, Operation operation, double microseconds, bool demandsAlignment = false)
      : id_(std::move(id)), operation_(operation), microseconds_(microseconds), demandsAlignment_(demandsAlignment) {}

  std::string_view id() const override { return id_; }
  Operation operation() const override { return operation_; }
  std::string_view summary() const override { return "a fake"; }

  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo&) const override {
    if (auto refusal = refusesOperation(*this, problem)) return refusal;
    if (demandsAlignment_ && problem.alignment == Alignment::kAny)
      return Refusal{"alignment", "addresses must be 16-byte aligned"};
    if (problem.isLinear() && problem.linear.n > 1000000) return Refusal{"n", "n must be at most 1000000"};
    return std::nullopt;
  }
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo&,
                                              const Configuration& configuration) const override {
    const std::int64_t* tile = configuration.find("tile");
    if (tile == nullptr) return Refusal{"parameters", "tile is missing"};
    if (*tile > 512) return Refusal{"tile", fmt::format("tile is {}, must be at most 512", *tile)};
    if (problem.isLinear() && problem.linear.m == 777 && *tile == 256) return Refusal{"tile", "not at m=777"};
    return std::nullopt;
  }
  std::vector<Parameter> parameters(const Problem&, const DeviceInfo&) const override {
    return {{"tile", "elements", {64, 128, 256}}};
  }
  Configuration defaultConfiguration(const Problem&, const DeviceInfo&) const override {
    return Configuration({{"tile", 64}});
  }
  double predictMicroseconds(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    return problem.linear.precision == Precision::kExact ? microseconds_ : microseconds_ / 2;
  }
  Precision precision(const Problem& problem, const Configuration&) const override {
    return problem.linear.precision == Precision::kFast ? Precision::kFp8 : problem.linear.precision;
  }
  bool demandsCleanBuild() const override { return true; }
  std::vector<BuildRequest> buildRequests(const Problem& problem, const DeviceInfo& device,
                                          const Configuration& configuration, const SourceCatalog&) const override {
    BuildRequest request;
    request.templateId = id_;
    request.source = "source of " + id_;
    request.target = device.target;
    for (const auto& [name, value] : configuration.entries())
      request.parameters.emplace_back(name, std::to_string(value));
    request.parameters.emplace_back("precision", std::string(precisionName(problem.linear.precision)));
    request.entries = {fmt::format("{} {} {}", id_, configuration.text(), precisionName(problem.linear.precision))};
    return {request};
  }
  /// Of a problem with prepared weights half as much.
  std::int64_t workspaceBytes(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    if (demandsAlignment_) return 256;
    return problem.linear.prepared ? 512 : 1024;
  }
  /// Lossy problems have a part more.
  std::string_view preparedFormat(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    if (!demandsAlignment_) return {};
    if (problem.linear.precision == Precision::kExact) return "fake";
    return problem.linear.precision == Precision::kInt8 ? "fake+s8" : "fake+fp8";
  }
  std::int64_t preparedBytes(const Problem&, const DeviceInfo&, const Configuration&) const override {
    return demandsAlignment_ ? 512 : 0;
  }
  void encodePreparation(const Problem&, const DeviceInfo&, const Configuration&, const Operands&, void*,
                         LaunchList& launches) const override {
    launches.addKernel(0, {7}, {32});
  }
  /// Lossy problems have a format, of 2 bytes a value.
  std::string_view activationFormat(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    if (!demandsAlignment_ || problem.linear.precision == Precision::kExact) return {};
    return problem.linear.precision == Precision::kInt8 ? "fake s8" : "fake fp8";
  }
  std::int64_t activationBytes(const Problem& problem, const DeviceInfo& device,
                               const Configuration& configuration) const override {
    if (activationFormat(problem, device, configuration).empty()) return 0;
    return problem.linear.m * problem.linear.k * 2;
  }
  void encodeActivations(const Problem&, const DeviceInfo&, const Configuration&, const Operands& operands, void*,
                         LaunchList& launches) const override {
    launches.addKernel(0, {static_cast<std::uint32_t>(operands.linear.xStride)}, {32});
  }
  /// A grid of 1000 more than that of encode().
  void encodeQuantized(const Problem& problem, const DeviceInfo&, const Configuration&, const Operands&, const void*,
                       void*, const void*, LaunchList& launches) const override {
    launches.addKernel(0, {static_cast<std::uint32_t>(1000 + problem.linear.m)}, {32});
  }
  void encode(const Problem& problem, const DeviceInfo&, const Configuration&, const Operands&, void*,
              const void* prepared, LaunchList& launches) const override {
    lastPrepared_ = prepared, lastHadPreparedProblem_ = problem.linear.prepared;
    const auto rows = problem.isLinear() ? problem.linear.m : problem.attention.qLen;
    launches.addKernel(0, {static_cast<std::uint32_t>(rows)}, {32});
  }

  struct Call {
    bool preparedProblem;
    const void* prepared;
  };
  /// What encode() was given last.
  Call lastCall() const { return {lastHadPreparedProblem_, lastPrepared_}; }

 private:
  mutable std::atomic<const void*> lastPrepared_ = nullptr;
  mutable std::atomic<bool> lastHadPreparedProblem_ = false;
  std::string id_;
  Operation operation_;
  double microseconds_;
  bool demandsAlignment_;
};

/// Three templates: one that demands alignment and is fast, one that refuses nothing, and one for attention each.
struct Templates {
  FakeTemplate tma{"q4k_linear.tma", Operation::kQ4kLinear, 40, true};
  FakeTemplate plain{"q4k_linear.plain", Operation::kQ4kLinear, 100};
  FakeTemplate attentionTma{"attention.tma", Operation::kAttention, 40, true};
  FakeTemplate attentionPlain{"attention.plain", Operation::kAttention, 100};
  std::array<const Template*, 4> all = {&plain, &tma, &attentionPlain, &attentionTma};
};

/// Makes a binary from any request, unless its template's id is in `refuses`.
class FakeCompiler final : public Compiler {
 public:
  bool handles(SourceKind kind, std::string_view target) const override { return target.starts_with("sm_"); }
  std::string identity() const override { return "fake 1"; }
  Result<Binary> build(const BuildRequest& request) const override {
    ++builds;
    if (refuses.contains(request.templateId))
      return std::unexpected(Error{ErrorCode::kCompile, "cannot compile " + request.templateId, "line 1: no"});
    Binary binary;
    binary.buildKey = buildKey(request, identity());
    binary.target = request.target;
    binary.compiler = identity();
    for (const char letter : binary.buildKey) binary.bytes.push_back(std::byte(letter));
    binary.hash = sha256Hex(binary.bytes);
    for (const std::string& entry : request.entries) binary.kernels.push_back({entry, 32, spillBytes, 0, 0});
    return binary;
  }

  std::set<std::string> refuses;
  int spillBytes = 0;
  mutable std::atomic<int> builds = 0;
};

}  // namespace tilewright::fakes
