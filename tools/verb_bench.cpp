// `tilewright bench`: times plans as the tuner does, verified first, in a worker process. One JSON line a plan:
//   {"problem": {...}, "template": "linear.portable", "configuration": {...}, "provenance": "exact", "default": false,
//    "median_us": 12.3, "low_us": 12.2, "high_us": 12.5, "mad_us": 0.1, "samples": 30, "tflops": 1.2, "gb_per_s": 85,
//    "roofline": 0.71, "error": 0.0021, "verified": true}
// A plan that cannot run has "failed" with the reason instead of figures.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "autotune/builder.h"
#include "autotune/measurer.h"
#include "autotune/statistics.h"
#include "autotune/worker.h"
#include "format/configuration_json.h"
#include "format/problem_json.h"
#include "runtime/dispatcher.h"
#include "templates/sources.h"
#include "tools/setup.h"
#include "tools/shapes_report.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

constexpr int kRounds = 3;  // the plans of a problem take turns, so that a drifting clock favours none
constexpr double kPlanSeconds = 120;
constexpr double kRestMilliseconds = 300;  // before a block of runs on a GPU

struct BenchPlan {
  const Template* kernelTemplate = nullptr;
  Configuration configuration;
  std::string provenance;  ///< "exact", "nearest", "default", "given"
  bool isDefault = false;
  autotune::Verification verification;
  std::vector<double> samples;
  std::string failure;
};

class Bench {
 public:
  Bench(const Options& options, const PickedDevice& device, const DatabaseLayers& layers, const CompilerSet& compilers)
      : options_(options),
        device_(device),
        layers_(layers),
        dispatcher_(device.info, layers),
        builder_(list_ = compilers.all(), cores(), [this](const std::string& key) { return stored(key); }),
        measurer_({.command = {"/proc/self/exe", std::string(autotune::kWorkerVerb)}, .device = device.name}, {}) {}

  /// Prints the lines of a problem; whether all of its plans ran and were right.
  Result<bool> run(const Problem& problem) {
    std::vector<BenchPlan> plans = TW_TRY(plansOf(problem));
    TW_TRY(measurer_.start());
    const Result<void> opened = measurer_.open(problem, {.seed = options_.tune.seed}, kPlanSeconds);
    if (!opened) {
      for (BenchPlan& plan : plans) plan.failure = opened.error().message;
    } else {
      for (std::size_t i = 0; i < plans.size(); ++i) prepare(problem, static_cast<int>(i), plans[i]);
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < plans.size(); ++i) measure(static_cast<int>(i), round, plans[i]);
      }
    }
    for (const BenchPlan& plan : plans) fmt::print("{}\n", lineOf(problem, plan).text());
    std::fflush(stdout);
    return std::ranges::all_of(plans,
                               [](const BenchPlan& plan) { return plan.failure.empty() && plan.verification.ok; });
  }

 private:
  static int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

  /// By build key; without a compiler the builder's key is the request's, which finds what any compiler made of it.
  std::optional<Binary> stored(const std::string& key) const {
    for (const auto& database : layers_.databases()) {
      if (Result<Binary> found = database->findByBuild(key)) return std::move(*found);
      if (Result<Binary> found = database->findByRequest(key)) return std::move(*found);
    }
    return std::nullopt;
  }

  Result<std::vector<BenchPlan>> plansOf(const Problem& problem) {
    const Selection selection = dispatcher_.select(problem);
    std::vector<BenchPlan> plans;
    const auto add = [&](const Template& kernelTemplate, const Configuration& configuration, std::string provenance) {
      for (const BenchPlan& known : plans) {
        if (known.kernelTemplate == &kernelTemplate && known.configuration == configuration) return;
      }
      plans.push_back({.kernelTemplate = &kernelTemplate, .configuration = configuration, .provenance = provenance});
    };
    if (!options_.templateId.empty()) {
      const Template* kernelTemplate = findTemplate(options_.templateId);
      if (kernelTemplate == nullptr)
        return fail(ErrorCode::kNotFound, "there is no template '{}'", options_.templateId);
      TW_TRY(addGiven(problem, *kernelTemplate, selection, add));
      return plans;
    }
    for (const Candidate& each : selection.candidates) {
      const bool isChoice = &each == &selection.candidates.front();
      const bool isStandard = each.provenance == Provenance::kDefault;
      const bool isFirstStandard =
          isStandard && std::ranges::none_of(plans, [](const BenchPlan& plan) { return plan.isDefault; });
      if (!isChoice && !isFirstStandard && !(options_.bench.allPlans && isStandard)) continue;
      add(*each.kernelTemplate, each.configuration, std::string(provenanceName(each.provenance)));
      if (isFirstStandard) markDefault(plans, each);
    }
    if (plans.empty()) {
      std::string reasons;
      for (const RefusedCandidate& each : selection.refused) {
        reasons += fmt::format("; {}: {}", each.templateId, each.refusal.reason);
      }
      return fail(ErrorCode::kUnsupported, "nothing computes {} on {}{}", toJson(problem), device_.info.name, reasons);
    }
    return plans;
  }

  static void markDefault(std::vector<BenchPlan>& plans, const Candidate& standard) {
    for (BenchPlan& plan : plans) {
      plan.isDefault |= plan.kernelTemplate == standard.kernelTemplate && plan.configuration == standard.configuration;
    }
  }

  template <typename Add>
  Result<void> addGiven(const Problem& problem, const Template& kernelTemplate, const Selection& selection,
                        const Add& add) {
    if (const auto refusal = kernelTemplate.refuses(problem, device_.info)) {
      return fail(ErrorCode::kUnsupported, "{} refuses {}: {}", kernelTemplate.id(), toJson(problem), refusal->reason);
    }
    if (!options_.configuration) {
      for (const Candidate& each : selection.candidates) {
        if (each.kernelTemplate != &kernelTemplate) continue;
        add(kernelTemplate, each.configuration, std::string(provenanceName(each.provenance)));
        return {};
      }
      add(kernelTemplate, kernelTemplate.defaultConfiguration(problem, device_.info), "default");
      return {};
    }
    if (const auto refusal = kernelTemplate.refusesConfiguration(problem, device_.info, *options_.configuration)) {
      return fail(ErrorCode::kInvalidArgument, "{} refuses {}: {}", kernelTemplate.id(), options_.configuration->json(),
                  refusal->reason);
    }
    add(kernelTemplate, *options_.configuration, "given");
    return {};
  }

  void prepare(const Problem& problem, int index, BenchPlan& plan) {
    const SourceCatalog sources;
    autotune::PlanDescription description{.templateId = std::string(plan.kernelTemplate->id()),
                                          .configuration = plan.configuration};
    for (const BuildRequest& request :
         plan.kernelTemplate->buildRequests(problem, device_.info, plan.configuration, sources)) {
      const auto outcome = builder_.wait(builder_.submit(request), [] { return false; });
      if (!*outcome) {
        plan.failure = outcome->error().message;
        return;
      }
      description.binaries.push_back({**outcome, request.entries});
    }
    Result<autotune::Verification> verified = measurer_.prepare(index, std::move(description), kPlanSeconds);
    if (verified) {
      plan.verification = std::move(*verified);
    } else {
      plan.failure = verified.error().message;
    }
  }

  void measure(int index, int round, BenchPlan& plan) {
    if (!plan.failure.empty() || !plan.verification.ok) return;
    const int repeats = (options_.bench.repeats + kRounds - 1 - round) / kRounds;
    if (repeats == 0) return;
    const MeasureOptions how{.repeats = repeats,
                             .restMilliseconds = device_.info.kind == DeviceKind::kCuda ? kRestMilliseconds : 0};
    const double limit = kPlanSeconds + 10 * plan.verification.microseconds * 1e-6 * (how.warmups + repeats);
    const auto times = measurer_.measure(index, how, limit);
    if (times) {
      plan.samples.insert(plan.samples.end(), times->begin(), times->end());
    } else {
      plan.failure = times.error().message;
    }
  }

  JsonValue lineOf(const Problem& problem, const BenchPlan& plan) const {
    JsonValue line = JsonValue::object({{"problem", problemToJson(problem)},
                                        {"device", deviceKey(device_.info)},
                                        {"template", plan.kernelTemplate->id()},
                                        {"configuration", configurationToJson(plan.configuration.entries())},
                                        {"provenance", plan.provenance},
                                        {"default", plan.isDefault}});
    if (!plan.failure.empty()) {
      line.add("failed", plan.failure);
      return line;
    }
    if (!plan.samples.empty()) addFigures(line, problem, plan);
    line.add("error", plan.verification.error);
    if (plan.verification.outlierError) line.add("outlier_error", *plan.verification.outlierError);
    if (const auto& preparation = plan.verification.preparation) {
      line.add("prepared_bytes", preparation->bytes);
      line.add("preparation_us", preparation->microseconds);
    }
    line.add("verified", plan.verification.ok);
    if (!plan.verification.ok) line.add("failed", plan.verification.what);
    return line;
  }

  void addFigures(JsonValue& line, const Problem& problem, const BenchPlan& plan) const {
    const autotune::Statistics statistics = autotune::summarize(plan.samples);
    const double seconds = statistics.median * 1e-6;
    const bool isLossy = plan.kernelTemplate->precision(problem, plan.configuration) != Precision::kExact;
    const double peak = device_.info.bf16FlopPerSecond * (isLossy ? 2 : 1);
    const double floor = std::max(flops(problem) / peak, bytes(problem) / device_.info.memoryBytesPerSecond);
    line.add("median_us", statistics.median);
    line.add("low_us", statistics.low);
    line.add("high_us", statistics.high);
    line.add("mad_us", statistics.mad);
    line.add("samples", statistics.count);
    line.add("tflops", flops(problem) / seconds * 1e-12);
    line.add("gb_per_s", bytes(problem) / seconds * 1e-9);
    line.add("roofline", floor / seconds);
  }

  const Options& options_;
  const PickedDevice& device_;
  const DatabaseLayers& layers_;
  Dispatcher dispatcher_;
  std::vector<const Compiler*> list_;
  autotune::Builder builder_;
  autotune::Measurer measurer_;
};

Result<std::vector<Problem>> problemsOf(const Options& options) {
  std::vector<Problem> problems;
  if (options.problem) problems.push_back(*options.problem);
  if (options.modelShapes.empty()) return problems;
  const ModelShapes shapes = TW_TRY(shapesOf(options));
  if (problems.empty()) TW_TRY(expectProblems(shapes));
  for (const ListedProblem& each : shapes.problems) problems.push_back(each.problem);
  return problems;
}

}  // namespace

Result<ExitCode> runBench(const Options& options) {
  const std::vector<Problem> problems = TW_TRY(problemsOf(options));
  const PickedDevice device = TW_TRY(pickDevice(options.device));
  std::vector<std::string> notes;
  const DatabaseLayers layers = TW_TRY(openLayers(options, notes));
  const CompilerSet compilers = CompilerSet::open(options.environment);
  printNotes(notes);
  printNotes(compilers.missing());
  Bench bench(options, device, layers, compilers);
  bool allRight = true;
  for (const Problem& problem : problems) {
    // One problem that nothing computes does not end a list.
    const Result<bool> right = bench.run(problem);
    if (!right && problems.size() == 1) return std::unexpected(right.error());
    if (!right) printNotes({right.error().message});
    allRight &= right.value_or(false);
  }
  return allRight ? kExitSuccess : kExitFailure;
}

}  // namespace tilewright
