// Host time of a call: from a problem to its plan with 10,000 plans, and from the plan to the device's launch.
//
// The problems are those of a large sweep (shapes times a ladder of row counts) and are asked in a random order, so
// that neither the table nor the branch predictor is warm for the one that comes next. Target: under 200 ns to the
// plan.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "runtime/runtime.h"
#include "tests/runtime/fakes.h"

namespace tilewright {
namespace {

constexpr int kProblems = 10000;

std::vector<Problem> problems() {
  std::vector<Problem> problems;
  for (int i = 0; i < kProblems; ++i) {
    problems.push_back(
        {.operation = Operation::kQ4kLinear, .linear = {.n = 256 * (1 + i % 100), .k = 4096, .m = 1 + i / 100}});
  }
  std::ranges::shuffle(problems, std::mt19937(7));
  return problems;
}

struct World {
  World() {
    RuntimeOptions options;
    const auto log = std::make_shared<fakes::FakeDevice::Log>();
    log->keep = false;
    options.device = std::make_unique<fakes::FakeDevice>(log);
    options.compilers = {&compiler};
    options.templates = templates.all;
    runtime = *Runtime::create(std::move(options));
    for (const Problem& problem : asked) {
      if (!runtime->bind(problem)) std::abort();
    }
  }

  fakes::Templates templates;
  fakes::FakeCompiler compiler;
  std::vector<Problem> asked = problems();
  std::unique_ptr<Runtime> runtime;
};

World& world() {
  static World world;
  return world;
}

void problemToPlan(benchmark::State& state) {
  World& w = world();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(w.runtime->find(pack(w.asked[i])));
    if (++i == w.asked.size()) i = 0;
  }
}
BENCHMARK(problemToPlan);

/// As tw_bind does it: with the problem's rules checked.
void problemToPlanChecked(benchmark::State& state) {
  World& w = world();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(w.runtime->bind(w.asked[i]));
    if (++i == w.asked.size()) i = 0;
  }
}
BENCHMARK(problemToPlanChecked);

void unknownProblem(benchmark::State& state) {
  World& w = world();
  Problem problem = w.asked.front();
  for (auto _ : state) {
    ++problem.linear.n;
    benchmark::DoNotOptimize(w.runtime->find(pack(problem)));
  }
}
BENCHMARK(unknownProblem);

/// Checks of the operands, geometry and arguments of one kernel; the fake device only takes note.
void planToLaunch(benchmark::State& state) {
  World& w = world();
  const Plan* plan = *w.runtime->bind({.operation = Operation::kQ4kLinear, .linear = {.n = 512, .k = 256, .m = 64}});
  alignas(256) static std::byte memory[4096];
  Operands operands;
  operands.linear = {.x = memory, .xStride = 256, .w = memory, .out = memory, .outStride = 512};
  for (auto _ : state) {
    if (!w.runtime->launch(*plan, operands, {memory, sizeof memory}, nullptr)) state.SkipWithError("launch failed");
  }
}
BENCHMARK(planToLaunch);

}  // namespace
}  // namespace tilewright
