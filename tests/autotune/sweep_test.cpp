// Whole sweeps on a fake device in real worker processes: planted crashes, hangs and wrong results, resuming, killing.
//
// The program is three things: the tests, the worker that the sweep starts (kWorkerVerb), and, for the tests that kill,
// a process that sweeps ("sweep DATABASE LOG"). One long file: all three share the planted templates and problems.
#include "autotune/sweep.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "autotune/worker.h"
#include "format/configuration_json.h"
#include "format/json_parse.h"
#include "format/json_value.h"
#include "tests/autotune/fake_device.h"

namespace tilewright::autotune {
namespace {

using testing::HasSubstr;

const DeviceInfo kDevice{.name = "fake",
                         .target = "x86-64",
                         .unitCount = 1,
                         .memoryBytes = 1 << 30,
                         .memoryBytesPerSecond = 1e10,
                         .bf16FlopPerSecond = 1e11};

const FakeTemplate& fakeTemplate() {
  static const FakeTemplate kTemplate("linear.fake", 1);
  return kTemplate;
}

/// Without the configurations that crash or hang, which take most of the time.
class TameTemplate : public FakeTemplate {
 public:
  using FakeTemplate::FakeTemplate;
  std::vector<Parameter> parameters(const Problem&, const DeviceInfo&) const override {
    return {{"tile", "columns", {1, 2}}, {"stages", "buffers", {1, 2}}};
  }
};

const TameTemplate& tameTemplate() {
  static const TameTemplate kTemplate("linear.fake", 1);
  return kTemplate;
}

const TameTemplate& preparingTemplate() {
  static const TameTemplate kTemplate("q4k_linear.fake", 1, Operation::kQ4kLinear);
  return kTemplate;
}

std::span<const Template* const> fakeTemplates() {
  static const Template* const kTemplates[] = {&fakeTemplate(), &preparingTemplate()};
  return kTemplates;
}

ListedProblem problemOf(std::int64_t m, double count = 1) {
  return {{.operation = Operation::kLinear, .linear = {.n = 32, .k = 64, .m = m}}, count, ""};
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "tilewright_sweep_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<Database> openDatabase(const std::filesystem::path& path) {
  auto database = Database::open(path, {.access = DatabaseAccess::kCreate});
  if (!database) ADD_FAILURE() << database.error().message;
  return database ? std::move(*database) : nullptr;
}

class Recorder : public SweepObserver {
 public:
  bool stopRequested() override { return stopAfter >= 0 && winners >= stopAfter; }
  void ended(const ProblemOutcome& outcome) override { winners += outcome.winner.has_value(); }

  int stopAfter = -1;
  int winners = 0;
};

struct Fixture {
  explicit Fixture(Database& database, std::vector<ListedProblem> problems,
                   std::span<const Template* const> templates = fakeTemplates()) {
    input = {.device = kDevice,
             .problems = std::move(problems),
             .templates = templates,
             .sources = &sources,
             .compilers = {&compiler},
             .database = &database,
             .workerCommand = {"/proc/self/exe", std::string(kWorkerVerb)},
             .workerDevice = "fake"};
    options.jobs = 2;
    options.candidateSeconds = 0.5;
  }

  SweepReport run() { return sweep(input, options, recorder); }

  SourceCatalog sources;
  FakeCompiler compiler;
  SweepInput input;
  SweepOptions options;
  Recorder recorder;
};

TEST(Sweep, crashingHangingAndWrongCandidatesCostThemselvesOnly) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  Fixture fixture(*database, {problemOf(8)});
  const SweepReport report = fixture.run();
  ASSERT_FALSE(report.error) << report.error->message;
  ASSERT_EQ(report.outcomes.size(), 1u);
  const ProblemOutcome& outcome = report.outcomes[0];
  ASSERT_EQ(outcome.status, ProblemStatus::kTuned) << outcome.reason;
  EXPECT_EQ(outcome.winner->configuration.text(), "tile=2 stages=2");
  EXPECT_NEAR(outcome.winner->speedUp(), 2, 0.02);
  EXPECT_GT(outcome.winner->error, 0) << "BF16 results are not exact";
  EXPECT_EQ(report.workerStarts, 3) << "one, and one more after the crash and the hang";

  std::map<std::string, std::string> refused;
  for (const RefusedPlan& each : outcome.refused) {
    EXPECT_FALSE(each.remembered);
    refused[each.configuration.text()] = each.refusal.constraint + ": " + each.refusal.reason;
  }
  EXPECT_THAT(refused["tile=1 stages=2"], HasSubstr("build: tile 1 wants one stage"));
  EXPECT_THAT(refused["tile=4 stages=1"], HasSubstr("crashed: the measuring process was killed by signal 11"));
  EXPECT_THAT(refused["tile=4 stages=2"], HasSubstr("wrong_result: "));
  EXPECT_THAT(refused["tile=8 stages=1"], HasSubstr("timeout: no answer within 0.5 s"));
  EXPECT_THAT(refused["tile=1 stages=1"], HasSubstr("wrong_result: after the race: ")) << "it had won the race";
  EXPECT_EQ(refused.size(), 5u);

  std::vector<std::string> warnings;
  const auto winners = database->winners(deviceKey(kDevice), warnings);
  ASSERT_TRUE(winners);
  ASSERT_EQ(winners->size(), 1u);
  EXPECT_EQ(winners->front().record.configuration, R"({"tile": 2, "stages": 2})");
  EXPECT_TRUE(database->findByBuild(winners->front().buildKeys.at(0))) << "the winner's binary is stored with it";
}

TEST(Sweep, recordsWhatAPlanKeepsOfPreparedWeights) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  const Problem unprepared{.operation = Operation::kQ4kLinear, .linear = {.n = 8, .k = 256, .m = 8}};
  Problem prepared = unprepared;
  prepared.linear.prepared = true;
  Fixture fixture(*database, {{prepared, 1, ""}, {unprepared, 1, ""}});
  const SweepReport report = fixture.run();
  ASSERT_EQ(report.count(ProblemStatus::kTuned), 2);
  std::vector<std::string> warnings;
  for (const ProblemOutcome& outcome : report.outcomes) {
    const Problem& problem = outcome.listed.problem;
    SCOPED_TRACE(toJson(problem));
    const auto records = database->records({.problem = toJson(problem), .device = deviceKey(kDevice)}, warnings);
    ASSERT_TRUE(records);
    for (const Record& record : *records) {
      const auto resources = parseJson(record.resources);
      ASSERT_TRUE(resources);
      const JsonValue* bytes = resources->find("prepared_bytes");
      const JsonValue* time = resources->find("preparation_us");
      if (!problem.linear.prepared || record.status == RecordStatus::kRefused) {
        EXPECT_TRUE(bytes == nullptr && time == nullptr) << record.resources;
        continue;
      }
      const auto entries = *parseConfiguration(record.configuration);
      ASSERT_TRUE(bytes != nullptr && time != nullptr) << record.resources;
      EXPECT_EQ(*bytes->asInteger(), preparingTemplate().preparedBytes(problem, kDevice, Configuration(entries)));
      EXPECT_GT(*time->asReal(), 0);
    }
    EXPECT_EQ(outcome.winner->configuration.text(), "tile=2 stages=2");
    EXPECT_EQ(outcome.winner->preparation.has_value(), problem.linear.prepared);
  }
}

/// Kills the sweep's workers, as the system does when memory runs out, whenever a race begins.
class Killer : public Recorder {
 public:
  explicit Killer(int kills) : left_(kills) {}

  void progress(const SweepProgress& progress) override {
    if (progress.stage != "racing" || left_ == 0) return;
    --left_;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
    }
  }

 private:
  int left_;
};

TEST(Sweep, asksOnceMoreWhenAWorkerIsKilledFromOutside) {
  if (!std::filesystem::exists("/proc/self/task")) GTEST_SKIP() << "no /proc to find the worker in";
  static const Template* const kTame[] = {&tameTemplate()};
  for (const int kills : {1, 2}) {
    const TemporaryFolder folder;
    const auto database = openDatabase(folder / "a.twdb");
    Fixture fixture(*database, {problemOf(8)}, kTame);
    Killer killer(kills);
    const SweepReport report = sweep(fixture.input, fixture.options, killer);
    ASSERT_EQ(report.outcomes.size(), 1u);
    EXPECT_EQ(report.outcomes[0].status, ProblemStatus::kTuned) << report.outcomes[0].reason;
    EXPECT_EQ(report.workerStarts, 1 + kills);
    for (const RefusedPlan& each : report.outcomes[0].refused) EXPECT_NE(each.refusal.constraint, "crashed");
  }
}

TEST(Sweep, remembersRefusalsUntilTheCodeChanges) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  ASSERT_EQ(Fixture(*database, {problemOf(8)}).run().count(ProblemStatus::kTuned), 1);

  // A thorough sweep repeats the problem, but not what was refused.
  Fixture again(*database, {problemOf(8)});
  again.options.effort = Effort::kFull;
  const SweepReport report = again.run();
  ASSERT_EQ(report.count(ProblemStatus::kTuned), 1);
  EXPECT_EQ(report.workerStarts, 1);
  EXPECT_EQ(report.outcomes[0].refused.size(), 5u);
  for (const RefusedPlan& each : report.outcomes[0].refused) EXPECT_TRUE(each.remembered) << each.configuration.text();

  FakeTemplate changed("linear.fake", 1);
  changed.sourceVersion = "2";
  const Template* const templates[] = {&changed};
  Fixture retuned(*database, {problemOf(8)}, templates);
  const SweepReport second = retuned.run();
  ASSERT_EQ(second.count(ProblemStatus::kTuned), 1) << "changed sources are tuned again";
  for (const RefusedPlan& each : second.outcomes[0].refused) EXPECT_FALSE(each.remembered) << each.configuration.text();
}

TEST(Sweep, skipsWhatIsDoneUnlessForced) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  ASSERT_EQ(Fixture(*database, {problemOf(8)}).run().count(ProblemStatus::kTuned), 1);

  Fixture second(*database, {problemOf(8), problemOf(9), problemOf(8)});
  const SweepReport report = second.run();
  EXPECT_EQ(report.outcomes.size(), 2u) << "a repetition is one problem";
  EXPECT_EQ(report.count(ProblemStatus::kAlreadyDone), 1);
  EXPECT_EQ(report.count(ProblemStatus::kTuned), 1);

  Fixture quick(*database, {problemOf(8)});
  quick.options.effort = Effort::kQuick;
  EXPECT_EQ(quick.run().count(ProblemStatus::kAlreadyDone), 1) << "done at a higher effort";

  Fixture forced(*database, {problemOf(8)});
  forced.options.force = true;
  EXPECT_EQ(forced.run().count(ProblemStatus::kTuned), 1);
}

TEST(Sweep, budgetThatEndsIsNoErrorAndListsWhatRemains) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  constexpr int kProblems = 1000;
  std::vector<ListedProblem> problems;
  for (int n = 1; n <= kProblems; ++n) {
    problems.push_back(problemOf(1));
    problems.back().problem.linear.n = n;
  }
  const Template* const templates[] = {&tameTemplate()};
  Fixture fixture(*database, std::move(problems), templates);
  fixture.options.budgetSeconds = 4;
  const SweepReport report = fixture.run();
  EXPECT_FALSE(report.error);
  EXPECT_GE(report.count(ProblemStatus::kTuned), 1);
  EXPECT_GE(report.count(ProblemStatus::kRemains), 1);
  EXPECT_EQ(report.count(ProblemStatus::kTuned) + report.count(ProblemStatus::kRemains), kProblems);
  for (const ProblemOutcome& each : report.outcomes) {
    if (each.status == ProblemStatus::kRemains) {
      EXPECT_FALSE(each.reason.empty());
    }
  }
}

TEST(Sweep, hugeProblemsAreLeftWithTheReason) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  FakeTemplate slow("linear.fake", 1e7);
  const Template* const templates[] = {&slow};
  Fixture fixture(*database, {problemOf(8)}, templates);
  fixture.options.budgetSeconds = 10;
  const SweepReport report = fixture.run();
  ASSERT_EQ(report.count(ProblemStatus::kRemains), 1);
  EXPECT_THAT(report.outcomes[0].reason, HasSubstr("more than the whole budget of 10 s"));
}

TEST(Sweep, stopsWithWhatItHas) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  Fixture fixture(*database, {problemOf(1), problemOf(2), problemOf(3), problemOf(4)});
  fixture.recorder.stopAfter = 1;
  const SweepReport report = fixture.run();
  EXPECT_TRUE(report.wasStopped);
  EXPECT_EQ(report.count(ProblemStatus::kTuned), 1);
  EXPECT_EQ(report.count(ProblemStatus::kRemains), 3);
}

TEST(Sweep, unsupportedProblemsNameEveryRefusal) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  FakeTemplate refusing("linear.fake", 1);
  refusing.refusal = {"k", "k is 64, must be 7"};
  const Template* const templates[] = {&refusing};
  const SweepReport report = Fixture(*database, {problemOf(1)}, templates).run();
  ASSERT_EQ(report.count(ProblemStatus::kUnsupported), 1);
  EXPECT_THAT(report.outcomes[0].reason, HasSubstr("linear.fake: k is 64, must be 7"));
  EXPECT_EQ(report.workerStarts, 0) << "nothing to run, so no device is opened";
}

TEST(Sweep, aDeviceThatCannotBeOpenedIsAnError) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  Fixture fixture(*database, {problemOf(1)});
  fixture.input.workerDevice = "no such device";
  const SweepReport report = fixture.run();
  ASSERT_TRUE(report.error);
  EXPECT_EQ(report.error->code, ErrorCode::kNotFound);
}

TEST(Sweep, compileOnlyStoresBinariesAndStartsNoWorker) {
  const TemporaryFolder folder;
  const auto database = openDatabase(folder / "a.twdb");
  Fixture fixture(*database, {problemOf(1), problemOf(2)});
  const SweepReport report = compileOnly(fixture.input, fixture.options, fixture.recorder);
  EXPECT_FALSE(report.error);
  EXPECT_EQ(report.workerStarts, 0);
  EXPECT_EQ(report.count(ProblemStatus::kCompiled), 2);
  EXPECT_EQ(database->summary()->builds, 6) << "seven configurations, of which one does not compile";
  EXPECT_EQ(report.outcomes[0].refused.size(), 1u);

  const SweepReport tuned = fixture.run();
  EXPECT_EQ(tuned.count(ProblemStatus::kTuned), 2);
  EXPECT_EQ(tuned.builds, 1) << "only what failed before is compiled again";
}

// --- Processes that are killed ---

pid_t startSweep(const std::filesystem::path& database, const std::filesystem::path& log) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "sweep_test", "sweep", database.c_str(), log.c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

std::vector<std::string> linesOf(const std::filesystem::path& log) {
  std::ifstream stream(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::set<std::string> winnersIn(const std::filesystem::path& path) {
  const auto database = Database::open(path);
  if (!database) return {};
  std::vector<std::string> warnings;
  std::set<std::string> problems;
  const auto winners = (*database)->winners("", warnings);
  EXPECT_TRUE(winners) << winners.error().message;
  for (const Winner& each : winners.value_or(std::vector<Winner>{})) problems.insert(each.record.problem);
  EXPECT_THAT(warnings, testing::IsEmpty());
  return problems;
}

TEST(Sweep, killedAtAnyMomentItLosesNoWinnerAndResumes) {
  const TemporaryFolder folder;
  const auto path = folder / "a.twdb", log = folder / "log";
  std::mt19937_64 generator(20261130);
  for (int kill = 0; kill < 10; ++kill) {
    const pid_t child = startSweep(path, log);
    ::usleep(100'000 + static_cast<useconds_t>(generator() % 900'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const std::set<std::string> winners = winnersIn(path);
    for (const std::string& line : linesOf(log)) EXPECT_TRUE(winners.contains(line)) << "lost: " << line;
  }

  int status = 0;
  ASSERT_EQ(::waitpid(startSweep(path, log), &status, 0) > 0, true);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(winnersIn(path).size(), 12u);
  const std::vector<std::string> lines = linesOf(log);
  EXPECT_EQ(std::set(lines.begin(), lines.end()).size(), lines.size()) << "a tuned problem was tuned again";
  const auto report = (*Database::open(path))->verify();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->problems, testing::IsEmpty());
}

TEST(Sweep, twoTunersOnOneFileShareTheWork) {
  const TemporaryFolder folder;
  const auto path = folder / "a.twdb";
  const pid_t first = startSweep(path, folder / "first"), second = startSweep(path, folder / "second");
  for (const pid_t child : {first, second}) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(winnersIn(path).size(), 12u);
  const auto report = (*Database::open(path))->verify();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->problems, testing::IsEmpty());
}

/// Logs each winner after it was committed.
class Logger : public SweepObserver {
 public:
  explicit Logger(const char* path) : file_(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  void ended(const ProblemOutcome& outcome) override {
    if (!outcome.winner) return;
    const std::string line = toJson(outcome.listed.problem) + "\n";
    if (::write(file_, line.data(), line.size()) < 0) std::abort();
  }

 private:
  int file_;
};

int sweepTwelve(const char* path, const char* log) {
  const auto database = Database::open(path, {.access = DatabaseAccess::kCreate});
  if (!database) return 2;
  std::vector<ListedProblem> problems;
  for (int m = 1; m <= 12; ++m) problems.push_back(problemOf(m));
  const Template* const templates[] = {&tameTemplate()};
  Fixture fixture(**database, std::move(problems), templates);
  Logger logger(log);
  const SweepReport report = sweep(fixture.input, fixture.options, logger);
  if (report.error) fprintf(stderr, "%s\n", report.error->message.c_str());
  return report.error ? 1 : 0;
}

}  // namespace
}  // namespace tilewright::autotune

int main(int argc, char** argv) {
  using namespace tilewright;
  using namespace tilewright::autotune;
  if (argc > 1 && argv[1] == kWorkerVerb) {
    const auto open = [](std::string_view name) -> Result<std::unique_ptr<Device>> {
      if (name != "fake") return fail(ErrorCode::kNotFound, "there is no device '{}'", name);
      return std::make_unique<FakeDevice>(kDevice);
    };
    return serveTuner({.openDevice = open, .templates = fakeTemplates()});
  }
  if (argc == 4 && std::string_view(argv[1]) == "sweep") return sweepTwelve(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
