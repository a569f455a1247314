// A device in host memory that runs FakeTemplate: results are computed plainly, times are planted, and some
// configurations compute wrongly, crash or hang. And the compiler that "builds" for it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/q4k.h"
#include "runtime/device.h"
#include "tests/autotune/fake_template.h"

namespace tilewright::autotune {

/// What FakeDevice does with the configurations of FakeTemplate.
enum class Planted {
  kRight,
  kWrong,
  kWrongLater,  ///< from its fourth launch on, as a race between threads may be
  kCrash,
  kHang,
};

struct PlantedConfiguration {
  std::int64_t tile, stages;
  Planted planted;
  double microseconds;
};

/// The default is tile 2, stages 1. tile 1, stages 2 does not compile (FakeCompiler).
inline constexpr PlantedConfiguration kPlanted[] = {
    {1, 1, Planted::kWrongLater, 90}, {2, 1, Planted::kRight, 200}, {2, 2, Planted::kRight, 100},
    {4, 1, Planted::kCrash, 50},      {4, 2, Planted::kWrong, 20},  {8, 1, Planted::kHang, 10},
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }
  Result<std::unique_ptr<LoadedBinary>> load(const Binary&) override { return std::make_unique<LoadedBinary>(); }
  Result<KernelHandle> find(LoadedBinary&, std::string_view) override { return KernelHandle{this}; }

  Result<void> launch(LaunchList& launches, std::span<const KernelHandle>, StreamHandle) override {
    const KernelArguments& arguments = launches.launches().front().arguments;
    std::int64_t tile, stages;
    const Problem* problem;
    const Operands* operands;
    float* prepared;
    std::int64_t isPreparation;
    std::memcpy(&tile, arguments.slot(0), 8);
    std::memcpy(&stages, arguments.slot(1), 8);
    std::memcpy(&problem, arguments.slot(2), 8);
    std::memcpy(&operands, arguments.slot(3), 8);
    std::memcpy(&prepared, arguments.slot(4), 8);
    std::memcpy(&isPreparation, arguments.slot(5), 8);
    log_.push_back(fmt::format("{} {}.{}{}", isPreparation != 0 ? "prepare" : "run", tile, stages,
                               isPreparation == 0 && prepared != nullptr ? " prepared" : ""));
    if (isPreparation != 0) {
      prepare(*problem, operands->linear, tile, stages, prepared);
      return {};
    }
    const std::vector<float> weights = weightsOf(*problem, operands->linear, tile, stages, prepared);
    for (const PlantedConfiguration& each : kPlanted) {
      if (each.tile == tile && each.stages == stages) planted_ = each;
    }
    switch (planted_.planted) {
      case Planted::kCrash:
        // A sanitizer would make an ordinary exit of it.
        std::signal(SIGSEGV, SIG_DFL);
        std::raise(SIGSEGV);
        break;
      case Planted::kHang:
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      case Planted::kWrongLater:
        compute(*problem, operands->linear, weights, ++launches_ > 3);
        break;
      default:
        compute(*problem, operands->linear, weights, planted_.planted == Planted::kWrong);
        break;
    }
    return {};
  }

  Result<DeviceBuffer> allocate(std::size_t bytes) override {
    return DeviceBuffer(std::aligned_alloc(256, (bytes + 255) / 256 * 256), bytes, [](void* data) { std::free(data); });
  }
  Result<void> copyToDevice(void* device, const void* host, std::size_t bytes) override {
    std::memcpy(device, host, bytes);
    return {};
  }
  Result<void> copyToHost(void* host, const void* device, std::size_t bytes) override {
    std::memcpy(host, device, bytes);
    return {};
  }
  Result<void> fill(void* device, std::uint8_t value, std::size_t bytes) override {
    std::memset(device, value, bytes);
    return {};
  }
  Result<void> synchronize() override { return {}; }

  Result<std::vector<double>> measure(const std::function<Result<void>(StreamHandle)>& enqueue,
                                      const MeasureOptions& options) override {
    log_.emplace_back("measure");
    TW_TRY(enqueue(nullptr));
    log_.emplace_back("measured");
    std::vector<double> times;
    for (int i = 0; i < options.warmups + options.repeats; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(planted_.microseconds));
      // Up to 0.5 % of noise: far less than what tells the planted times apart.
      if (i >= options.warmups)
        times.push_back(planted_.microseconds * (1 + 0.005 * static_cast<double>(noise_() % 1000) / 1000));
    }
    return times;
  }

  /// What was launched since the last call, such as "prepare 2.1" and "run 2.1 prepared", and when it was measured.
  std::vector<std::string> takeLog() { return std::exchange(log_, {}); }

  bool forgetsLastWeight = false;  ///< a preparation that leaves the last weight as it was

 private:
  /// W of either operation in floats.
  static std::vector<float> weightsOf(const Problem& problem, const LinearOperands& operands) {
    std::vector<float> weights(static_cast<std::size_t>(problem.linear.n * problem.linear.k));
    if (problem.operation == Operation::kQ4kLinear) {
      const auto* blocks = static_cast<const Q4kBlock*>(operands.w);
      for (std::size_t i = 0; i < weights.size(); i += Q4kBlock::kWeights) {
        dequantize(*blocks++, std::span<float, Q4kBlock::kWeights>(&weights[i], Q4kBlock::kWeights));
      }
    } else {
      const auto* w = static_cast<const Bf16*>(operands.w);
      std::ranges::transform(w, w + weights.size(), weights.begin(), [](Bf16 each) { return toFloat(each); });
    }
    return weights;
  }

  void prepare(const Problem& problem, const LinearOperands& operands, std::int64_t tile, std::int64_t stages,
               float* prepared) const {
    std::fill_n(prepared, tile + stages, preparedMark(tile, stages));
    const std::vector<float> weights = weightsOf(problem, operands);
    std::copy(weights.begin(), weights.end() - forgetsLastWeight, prepared + tile + stages);
  }

  /// W as a plan sees it: NaN if the prepared weights are another plan's.
  static std::vector<float> weightsOf(const Problem& problem, const LinearOperands& operands, std::int64_t tile,
                                      std::int64_t stages, const float* prepared) {
    std::vector<float> weights = weightsOf(problem, operands);
    if (prepared == nullptr) return weights;
    const bool isMine =
        std::all_of(prepared, prepared + tile + stages, [&](float mark) { return mark == preparedMark(tile, stages); });
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = isMine ? prepared[tile + stages + i] : NAN;
    return weights;
  }

  static void compute(const Problem& problem, const LinearOperands& operands, std::span<const float> w, bool wrongly) {
    const auto* x = static_cast<const Bf16*>(operands.x);
    auto* out = static_cast<Bf16*>(operands.out);
    const auto [n, k, m, precision, bias, prepared] = problem.linear;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        float sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += toFloat(x[row * operands.xStride + i]) * w[column * k + i];
        if (wrongly && row == m - 1 && column == n - 1) sum += 1;
        out[row * operands.outStride + column] = toBf16(sum);
      }
    }
  }

  DeviceInfo info_;
  PlantedConfiguration planted_{};
  int launches_ = 0;  // of kWrongLater
  std::vector<std::string> log_;
  std::mt19937_64 noise_{1};
};

/// Refuses tile 1 with stages 2; its binaries are the request's text.
class FakeCompiler : public Compiler {
 public:
  bool handles(SourceKind kind, std::string_view) const override { return kind == SourceKind::kTile; }
  std::string identity() const override { return "fake 1"; }
  Result<Binary> build(const BuildRequest& request) const override {
    const std::string text = request.source + " " + describeParameters(request);
    if (describeParameters(request) == "tile=1, stages=2") return fail(ErrorCode::kCompile, "tile 1 wants one stage");
    const auto bytes = std::as_bytes(std::span(text));
    return Binary{.hash = sha256Hex(text),
                  .buildKey = buildKey(request, identity()),
                  .target = request.target,
                  .compiler = identity(),
                  .bytes = {bytes.begin(), bytes.end()},
                  .kernels = {{.entry = "run"}}};
  }
};

}  // namespace tilewright::autotune
