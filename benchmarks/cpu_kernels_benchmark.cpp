// The portable templates on this CPU, against the FMA peak that is measured in the same run.
//
//   build/dev/benchmarks/cpu_kernels_benchmark --benchmark_counters_tabular=true
//
// Each line has the best iteration's GFLOP/s; peak_share is its ratio to as many threads' FMA peak, measured just
// before; speedup is the ratio to one thread's best time. Configurations are the defaults.
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "compiler/tile/tile_compiler.h"
#include "reference/device_operands.h"
#include "runtime/host/cpu_device.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright {
namespace {

/// Seconds of this thread's CPU time if it works alone, so that other load on the machine does not count; else of time.
double secondsOf(int threads, const auto& work) {
  const auto now = [&] {
    timespec time{};
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

/// Independent chains of FMAs, enough to cover the latency of two units.
constexpr int kChains = 12;
constexpr int kIterations = 2'000'000;

__attribute__((target("avx512f"))) double fmaAvx512() {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (int step = 0; step < kIterations; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  benchmark::DoNotOptimize(sums[0]);
  return 2.0 * 16 * kChains * kIterations;
}

__attribute__((target("avx2,fma"))) double fmaAvx2() {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int step = 0; step < kIterations; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  benchmark::DoNotOptimize(sums[0]);
  return 2.0 * 8 * kChains * kIterations;
}

double multiplyAddSse() {
  __m128 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm_set1_ps(static_cast<float>(i));
  const __m128 factor = _mm_set1_ps(0.999f), term = _mm_set1_ps(0.001f);
  for (int step = 0; step < kIterations; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], factor), term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm_add_ps(sums[0], sums[i]);
  benchmark::DoNotOptimize(sums[0]);
  return 2.0 * 4 * kChains * kIterations;
}

/// Best FLOP/s of `threads` threads that do nothing but FMAs, in the widest vectors of the target.
double measurePeak(std::string_view target, int threads) {
  const auto work = target == "x86-64-v4" ? fmaAvx512 : target == "x86-64-v3" ? fmaAvx2 : multiplyAddSse;
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    double flops = 0;
    const double seconds = secondsOf(threads, [&] {
      std::vector<std::thread> others;
      for (int i = 1; i < threads; ++i) others.emplace_back([&] { work(); });
      flops = work() * threads;
      for (std::thread& other : others) other.join();
    });
    best = std::max(best, flops / seconds);
  }
  return best;
}

struct Case {
  std::string name;
  std::string_view templateId;
  Problem problem;
};

/// Best seconds of one thread, by case: what a run on more threads compares itself with.
std::map<std::string, double> bestOfOneThread;

Result<void> measureCase(const Case& each, int threads, benchmark::State& state) {
  const auto compiler = TW_TRY(createTileCompiler());
  const auto loader = TW_TRY(createHostLoader());
  const auto cpu = makeCpuDevice(loader.get(), threads);
  const Template& kernelTemplate = *findTemplate(each.templateId);
  const Configuration configuration = kernelTemplate.defaultConfiguration(each.problem, cpu->info());
  const BuildRequest request =
      kernelTemplate.buildRequests(each.problem, cpu->info(), configuration, SourceCatalog()).front();
  const auto loaded = TW_TRY(cpu->load(TW_TRY(compiler->build(request))));
  const std::vector kernels{TW_TRY(cpu->find(*loaded, request.entries.front()))};
  const auto operands = TW_TRY(reference::makeOperands(each.problem));
  const auto uploaded = TW_TRY(reference::DeviceOperands::upload(*cpu, operands));
  LaunchList launches;
  kernelTemplate.encode(each.problem, cpu->info(), configuration, uploaded.operands(), nullptr, nullptr, launches);

  const double peak = measurePeak(cpu->info().target, threads);
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    Result<void> launched;
    const double seconds = secondsOf(threads, [&] { launched = cpu->launch(launches, kernels, nullptr); });
    TW_TRY(std::move(launched));
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  if (threads == 1) bestOfOneThread[each.name] = best;
  state.counters["GFLOP/s"] = flops(each.problem) / best / 1e9;
  state.counters["GB/s"] = bytes(each.problem) / best / 1e9;
  state.counters["peak_GFLOP/s"] = peak / 1e9;
  state.counters["peak_share"] = flops(each.problem) / best / peak;
  if (bestOfOneThread.contains(each.name)) state.counters["speedup"] = bestOfOneThread[each.name] / best;
  state.SetLabel(configuration.text());
  return {};
}

Problem linearProblem(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.operation = operation, .linear = {.n = n, .k = k, .m = m}};
}

Problem attentionProblem(std::int64_t qLen, std::int64_t kvLen) {
  return {.operation = Operation::kAttention,
          .attention = {
              .batch = 1, .qHeads = 8, .kvHeads = 2, .headDim = 128, .qLen = qLen, .kvLen = kvLen, .causal = true}};
}

void registerCases() {
  static const std::vector<Case> kCases{
      {"linear/1024^3", "linear.portable", linearProblem(Operation::kLinear, 1024, 1024, 1024)},
      {"linear/m=1", "linear.portable", linearProblem(Operation::kLinear, 1, 4096, 4096)},
      {"linear/m=16", "linear.portable", linearProblem(Operation::kLinear, 16, 4096, 4096)},
      {"q4k_linear/m=512", "q4k_linear.portable", linearProblem(Operation::kQ4kLinear, 512, 1024, 1024)},
      {"q4k_linear/m=1", "q4k_linear.portable", linearProblem(Operation::kQ4kLinear, 1, 4096, 4096)},
      {"q4k_linear/m=16", "q4k_linear.portable", linearProblem(Operation::kQ4kLinear, 16, 4096, 4096)},
      {"attention/512x1024", "attention.portable", attentionProblem(512, 1024)},
      {"attention/1x8192", "attention.portable", attentionProblem(1, 8192)},
  };
  const int hardware = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const Case& each : kCases) {
    for (int threads = 1; threads <= std::min(hardware, 2); ++threads) {
      benchmark::RegisterBenchmark(fmt::format("{}/threads:{}", each.name, threads).c_str(),
                                   [&each, threads](benchmark::State& state) {
                                     if (const auto result = measureCase(each, threads, state); !result) {
                                       state.SkipWithError(result.error().message.c_str());
                                     }
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  tilewright::registerCases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
