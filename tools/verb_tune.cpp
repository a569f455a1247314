// `tilewright tune`, and the hidden verb of its worker process.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "autotune/sweep.h"
#include "autotune/worker.h"
#include "cache/database.h"
#include "runtime/device.h"
#include "tools/setup.h"
#include "tools/shapes_report.h"
#include "tools/tune_report.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

constexpr double kCpuBudgetSeconds = 60;

// NOTE: a signal handler can reach nothing but a global.
volatile std::sig_atomic_t stopSignal = 0;

/// While it lives, the first SIGINT or SIGTERM asks the sweep to end with what it has; a second one kills as usual.
class StopOnSignal {
 public:
  StopOnSignal() {
    stopSignal = 0;
    struct sigaction action{};
    action.sa_handler = [](int signal) { stopSignal = signal; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~StopOnSignal() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  static bool requested() { return stopSignal != 0; }

 private:
  struct sigaction interrupt_{}, terminate_{};
};

/// On a terminal one line that is written over, and a line for each problem that ended; elsewhere only the latter.
class Display : public autotune::SweepObserver {
 public:
  Display() : isTerminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Display() override { clear(); }

  bool stopRequested() override { return StopOnSignal::requested(); }

  void progress(const autotune::SweepProgress& progress) override {
    const auto now = std::chrono::steady_clock::now();
    if (!isTerminal_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    winsize size{};
    const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
    fmt::print(stderr, "\r{}\x1b[K", progressText(progress, width - 1));
    std::fflush(stderr);
    isDirty_ = true;
  }

  void ended(const autotune::ProblemOutcome& outcome) override {
    using autotune::ProblemStatus;
    // The summary lists what was done before, what remains and what nothing computes.
    const bool isNews = outcome.status == ProblemStatus::kTuned || outcome.status == ProblemStatus::kCompiled ||
                        outcome.status == ProblemStatus::kFailed;
    if (!isNews) return;
    clear();
    fmt::print(stderr, "{}\n", outcomeText(outcome));
  }

 private:
  void clear() {
    if (isDirty_) fmt::print(stderr, "\r\x1b[K");
    isDirty_ = false;
  }

  bool isTerminal_;
  bool isDirty_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

double budgetOf(const Options& options, const DeviceInfo& device) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (options.tune.budgetSeconds) return *options.tune.budgetSeconds > 0 ? *options.tune.budgetSeconds : kNone;
  return device.kind == DeviceKind::kCpu && !options.tune.compileOnly ? kCpuBudgetSeconds : kNone;
}

std::string budgetText(double seconds) {
  return seconds < std::numeric_limits<double>::infinity() ? fmt::format("budget {:.0f} s", seconds) : "no time limit";
}

/// What to compile for, which need not be there, or a device to measure on, which must.
Result<PickedDevice> deviceOf(const Options& options) {
  PickedDevice device = TW_TRY(pickDevice(options.device));
  if (options.tune.compileOnly || !device.name.empty()) return device;
  device = TW_TRY(pickDevice({}));
  return pickDevice({.device = device.name, .arch = options.device.arch});
}

}  // namespace

Result<ExitCode> runTune(const Options& options) {
  const ModelShapes shapes = TW_TRY(shapesOf(options));
  if (options.tune.dryRun) {
    fmt::print("{}", options.json ? shapesListing(shapes) : shapesTable(shapes));
    return kExitSuccess;
  }
  TW_TRY(expectProblems(shapes));
  const PickedDevice device = TW_TRY(deviceOf(options));
  const auto path = options.databases.user ? *options.databases.user : TW_TRY(userDatabasePath(options.environment));
  const auto database = TW_TRY(Database::open(path, {.access = DatabaseAccess::kCreate}));
  printNotes(database->notes());

  const CompilerSet compilers = CompilerSet::open(options.environment);
  const SourceCatalog sources;
  const autotune::SweepInput input{.device = device.info,
                                   .problems = shapes.problems,
                                   .templates = allTemplates(),
                                   .sources = &sources,
                                   .compilers = compilers.all(),
                                   .database = database.get(),
                                   .workerCommand = {"/proc/self/exe", std::string(autotune::kWorkerVerb)},
                                   .workerDevice = device.name};
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const autotune::SweepOptions sweepOptions{.budgetSeconds = budgetOf(options, device.info),
                                            .jobs = options.tune.jobs > 0 ? options.tune.jobs : cores,
                                            .force = options.tune.force,
                                            .effort = options.tune.effort,
                                            .seed = options.tune.seed};
  fmt::print(stderr, "{} {} for {} ({}), {}, into {}\n", options.tune.compileOnly ? "compiling" : "tuning",
             shapes.problems.size() == 1 ? "1 problem" : fmt::format("{} problems", shapes.problems.size()),
             device.info.name, device.info.target, budgetText(sweepOptions.budgetSeconds), path.string());
  printNotes(compilers.missing());

  const StopOnSignal signals;
  autotune::SweepReport report;
  {
    Display display;
    report = options.tune.compileOnly ? autotune::compileOnly(input, sweepOptions, display)
                                      : autotune::sweep(input, sweepOptions, display);
  }
  fmt::print("{}", options.json ? sweepListing(report) : sweepText(report));
  if (!options.json) fmt::print("{}", notCoveredText(shapes.notCovered));
  if (report.error) return std::unexpected(*report.error);
  const bool foundNothing =
      report.count(autotune::ProblemStatus::kUnsupported) == static_cast<int>(report.outcomes.size());
  if (foundNothing) return kExitNotFound;
  // What was tuned is kept; a script must still learn that a problem has no kernel that could be run.
  return report.count(autotune::ProblemStatus::kFailed) > 0 ? kExitFailure : kExitSuccess;
}

Result<ExitCode> runTuneWorker(const Options& options) {
  const CompilerSet compilers = CompilerSet::open(options.environment);
  const autotune::WorkerEnvironment environment{
      .openDevice = [&](std::string_view name) { return openDevice(name, compilers.hostLoader()); },
      .templates = allTemplates()};
  return static_cast<ExitCode>(autotune::serveTuner(environment));
}

}  // namespace tilewright
