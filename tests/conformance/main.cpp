// The conformance suites: every template of this build on every case of its operation, on one device.
//
//   conformance                                      the portable templates on the CPU
//   conformance --device cuda:0 --spread 4           the CUDA templates on a GPU, five configurations per case
//   conformance --compile-only --cubins c            fills a folder of builds where there is no GPU
//   conformance_gpu --device cuda:0 --cubins c --no-build --huge
//
// Tests are named <operation>.<case>/<template>. Flows that only GPUs have follow in <operation>_graph (captured and
// replayed), _streams (two at once), _shared (two plans on one quantization of x), _prepared (plans on weights that
// others prepared), _repeats (1000 runs, equal bits) and _units (planned for fewer SMs than there are). What a template
// refuses is skipped with its reason, and counted at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <iterator>
#include <map>

#include "tests/conformance/toolchain.h"

namespace tilewright::conformance {
namespace {

// Exclusions by template and reason, for the summary.
using Exclusions = std::map<std::string, int>;

class CaseTest : public testing::Test {
 public:
  CaseTest(std::function<Outcome()> run, std::string templateId, Exclusions& exclusions)
      : run_(std::move(run)), templateId_(std::move(templateId)), exclusions_(exclusions) {}

  void TestBody() override {
    const Outcome outcome = run_();
    for (const std::string& failure : outcome.failures) ADD_FAILURE() << failure;
    if (!outcome.excluded.empty()) {
      ++exclusions_[templateId_ + ": " + outcome.excluded];
      GTEST_SKIP() << outcome.excluded;
    }
    EXPECT_GT(outcome.configurations + outcome.failures.size(), 0U) << "nothing ran";
  }

 private:
  std::function<Outcome()> run_;
  std::string templateId_;
  Exclusions& exclusions_;
};

/// One way in which a template runs on a case, with the suffixes of its test's names.
struct Flow {
  std::string_view suite;
  std::string name{};
  int units = 0;         ///< SMs for which plans are made; 0: the device's
  bool isPair = false;   ///< runs plans of the case withOtherColumns() too
  bool isMixed = false;  ///< runs plans of the operation's other templates too
  std::function<Outcome(Harness&, const Template&, const Case&)> run;
};

std::vector<Flow> flowsOf(const Case& each, const DeviceInfo& device) {
  std::vector<Flow> flows;
  const auto add = [&](std::string_view suite, Outcome (Harness::*run)(const Template&, const Case&)) {
    flows.push_back({.suite = suite, .run = std::mem_fn(run)});
  };
  const auto addPlain = [&](std::string_view suite, std::string name, int units) {
    const auto run = [units](Harness& harness, const Template& kernelTemplate, const Case& chosen) {
      return harness.run(kernelTemplate, chosen, units);
    };
    flows.push_back({.suite = suite, .name = std::move(name), .units = units, .run = run});
  };
  addPlain("", "", 0);
  if (device.kind != DeviceKind::kCuda || !hasFlows(each)) return flows;
  // Graphs change the kv lengths between replays.
  if (each.problem.isLinear() || !each.operands.kvLens.empty()) add("_graph", &Harness::runGraph);
  add("_streams", &Harness::runStreams);
  if (each.problem.operation == Operation::kQ4kLinear) {
    add("_shared", &Harness::runShared);
    flows.back().isPair = true;
    const auto run = [](Harness& harness, const Template& kernelTemplate, const Case& chosen) {
      return harness.runPrepared(kernelTemplate, chosen);
    };
    flows.push_back({.suite = "_prepared", .isMixed = true, .run = run});
  }
  // A thousand runs, or three more plans, of so many configurations would take too long.
  if (each.everyPair) return flows;
  constexpr double kManyTimes = 3e10;  // flops that a GPU does a thousand times within seconds
  if (flops(each.problem) <= kManyTimes) add("_repeats", &Harness::runRepeatedly);
  for (const int units : kFewerUnits) {
    if (units < device.unitCount) addPlain("_units", fmt::format("_on_{}", units), units);
  }
  return flows;
}

class Registration {
 public:
  Registration(Harness& harness, Exclusions& exclusions) : harness_(harness), exclusions_(exclusions) {}

  void addOperation(Operation operation) {
    const std::string suite(operationName(operation));
    // The tests refer to the cases, which live as long as this object.
    const std::vector<Case>& cases = cases_[operation] = casesOf(operation);
    std::vector<const Template*> templates;
    for (const Template* each : allTemplates()) {
      if (each->operation() == operation && runsHere(*each, cases)) templates.push_back(each);
    }
    for (const Case& each : cases) {
      if (!isWanted(each)) continue;
      for (const Template* kernelTemplate : templates) {
        for (const Flow& flow : flowsOf(each, harness_.info())) add(suite, each, *kernelTemplate, flow, templates);
      }
    }
  }

  /// The jobs of the tests that will run; known once the filter has been applied.
  std::vector<Job> chosenJobs(const testing::UnitTest& tests) const {
    std::vector<Job> jobs;
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *tests.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count(); ++j) {
        const testing::TestInfo& test = *suite.GetTestInfo(j);
        if (!test.should_run()) continue;
        const auto [begin, end] = jobs_.equal_range(fmt::format("{}.{}", suite.name(), test.name()));
        for (auto job = begin; job != end; ++job) jobs.push_back(job->second);
      }
    }
    return jobs;
  }

 private:
  /// A template for other targets refuses every case by that rule: one line says so instead of hundreds of skipped
  /// tests.
  bool runsHere(const Template& kernelTemplate, const std::vector<Case>& cases) const {
    std::optional<Refusal> refusal;
    for (const Case& each : cases) {
      refusal = kernelTemplate.refuses(problemOf(each), harness_.info());
      if (!refusal || refusal->constraint != "target") return true;
    }
    std::printf("%s is left out: %s\n", std::string(kernelTemplate.id()).c_str(), refusal->reason.c_str());
    return false;
  }

  bool isWanted(const Case& each) const {
    const Options& options = harness_.options();
    if (each.huge && !options.huge) return false;
    return options.maxFlops == 0 || flops(each.problem) <= options.maxFlops;
  }

  void add(const std::string& operation, const Case& each, const Template& kernelTemplate, const Flow& flow,
           std::span<const Template* const> templates) {
    const std::string id(kernelTemplate.id());
    const std::string suite = fmt::format("{}{}", operation, flow.suite);
    const std::string name = fmt::format("{}{}/{}", each.name, flow.name, id.substr(id.find('.') + 1));
    jobs_.emplace(suite + "." + name, Job{.kernelTemplate = &kernelTemplate, .each = &each, .units = flow.units});
    if (flow.isPair) {
      const Case& other = others_.emplace_back(withOtherColumns(each));
      jobs_.emplace(suite + "." + name, Job{.kernelTemplate = &kernelTemplate, .each = &other});
    }
    if (flow.isMixed) {
      for (const Template* other : templates) {
        if (other != &kernelTemplate) jobs_.emplace(suite + "." + name, Job{.kernelTemplate = other, .each = &each});
      }
    }
    const auto run = [this, &each, &kernelTemplate, run = flow.run] { return run(harness_, kernelTemplate, each); };
    testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [this, run, id]() -> testing::Test* { return new CaseTest(run, id, exclusions_); });
  }

  Harness& harness_;
  Exclusions& exclusions_;
  std::map<Operation, std::vector<Case>> cases_;
  std::deque<Case> others_;
  std::multimap<std::string, Job> jobs_;
};

/// Compiles all that the chosen tests need at once, on all cores, before the first of them.
class Prebuild : public testing::EmptyTestEventListener {
 public:
  Prebuild(const Registration& registration, Toolchain& toolchain, const DeviceInfo& device)
      : registration_(registration), toolchain_(toolchain), device_(device) {}

  void OnTestIterationStart(const testing::UnitTest& tests, int) override {
    const Result<void> built = toolchain_.prebuild(registration_.chosenJobs(tests), device_);
    if (!built) std::fprintf(stderr, "%s\n", built.error().message.c_str());
  }

 private:
  const Registration& registration_;
  Toolchain& toolchain_;
  DeviceInfo device_;
};

constexpr std::array kOperations{Operation::kLinear, Operation::kQ4kLinear, Operation::kAttention};

int compileAll(const Options& options, Toolchain& toolchain) {
  const Result<DeviceInfo> device = nominalDevice(options.target);
  if (!device) return std::fprintf(stderr, "%s\n", device.error().message.c_str()), 2;
  std::vector<Case> cases;
  for (const Operation operation : kOperations) std::ranges::move(casesOf(operation), std::back_inserter(cases));
  std::deque<Case> others;
  std::vector<Job> jobs;
  for (const Case& each : cases) {
    if (each.huge && !options.huge) continue;
    for (const Template* kernelTemplate : allTemplates()) {
      if (kernelTemplate->operation() != each.problem.operation) continue;
      for (const Flow& flow : flowsOf(each, *device)) {
        jobs.push_back({kernelTemplate, &each, flow.units});
        if (flow.isPair) jobs.push_back({kernelTemplate, &others.emplace_back(withOtherColumns(each)), 0});
      }
    }
  }
  const Result<void> built = toolchain.prebuild(jobs, *device);
  if (!built) std::fprintf(stderr, "%s\n", built.error().message.c_str());
  return built ? 0 : 1;
}

int runConformance(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Result<Options> options = parseOptions(argc, argv);
  if (!options) {
    const bool help = options.error().code == ErrorCode::kNotFound;
    return std::fprintf(help ? stdout : stderr, "%s\n", options.error().message.c_str()), help ? 0 : 2;
  }
  // What a CPU computes in a second or so; the same edges exist in small.
  constexpr double kCpuFlops = 1e9;
  if (options->device == "cpu" && options->maxFlops == 0) options->maxFlops = kCpuFlops;

  Toolchain toolchain(*options);
  if (options->compileOnly) return compileAll(*options, toolchain);
  const Result<std::unique_ptr<Device>> device = openDevice(options->device, toolchain.hostLoader());
  if (!device) {
    std::printf("skipped: %s\n", device.error().message.c_str());
    // No device, no verdict: ctest knows this status as "skipped".
    constexpr int kSkipped = 77;
    return kSkipped;
  }
  Harness harness(**device, toolchain.build(), *options);
  Exclusions exclusions;
  Registration registration(harness, exclusions);
  for (const Operation operation : kOperations) registration.addOperation(operation);
  if (testing::UnitTest::GetInstance()->total_test_count() == 0) {
    return std::fprintf(stderr, "no template of this build runs on %s\n", options->device.c_str()), 1;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new Prebuild(registration, toolchain, (*device)->info()));
  const int status = RUN_ALL_TESTS();
  for (const auto& [reason, count] : exclusions) std::printf("excluded %d times: %s\n", count, reason.c_str());
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    return std::fprintf(stderr, "the filter leaves no test\n"), 1;
  }
  return status;
}

}  // namespace
}  // namespace tilewright::conformance

int main(int argc, char** argv) {
  return tilewright::conformance::runConformance(argc, argv);
}
