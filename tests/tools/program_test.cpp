// The program as a process: output, standard error, exit codes, and the environment it depends on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "cache/database.h"
#include "format/json_parse.h"
#include "format/listing.h"
#include "format/problem_json.h"
#include "templates/template.h"
#include "tests/tools/program_fixture.h"
#include "tools/exit_code.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

const std::string kProblem = R"({"op": "q4k_linear", "n": 512, "k": 1024, "m": 16})";

TEST_F(ProgramTest, helpAndVersionGoToStandardOutput) {
  for (const auto& arguments : std::initializer_list<std::vector<std::string>>{
           {"--help"}, {"tune", "-h"}, {"db", "ls", "--help"}, {"--version"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exitCode, kExitSuccess);
    EXPECT_FALSE(outcome.output.empty());
    EXPECT_EQ(outcome.errors, "");
  }
}

TEST_F(ProgramTest, mistakesGoToStandardErrorWithExitCode2) {
  expectError(run({}), kExitUsage, "subcommand is required");
  expectError(run({"tune", "--model-shapes", "x", "--m", "y"}), kExitUsage, "--m: cannot read 'y'");
  expectError(run({"explain", R"({"op": "q4k_linear", "n": 8, "k": 100, "m": 1})"}), kExitUsage,
              "k is 100, must be a multiple of 256");
}

TEST_F(ProgramTest, dryRunPrintsATableOfProblems) {
  const Outcome outcome =
      run({"tune", "--model-shapes", std::string(TILEWRIGHT_SOURCE_DIR) + "/tools/models/gemma-3-4b.json", "--m",
           "1,16", "--q", "1", "--kv", "1024,4096", "--dry-run"});
  EXPECT_EQ(outcome.exitCode, kExitSuccess) << outcome.errors;
  EXPECT_EQ(outcome.output,
            "use               calls  operation   shape                           sizes\n"
            "q                    34  q4k_linear  n=2048 k=2560 exact             m=1,16\n"
            "k+v                  68  q4k_linear  n=1024 k=2560 exact             m=1,16\n"
            "qkv                  34  q4k_linear  n=4096 k=2560 exact             m=1,16\n"
            "attention_output     34  q4k_linear  n=2560 k=2048 exact             m=1,16\n"
            "gate+up              68  q4k_linear  n=10240 k=2560 exact            m=1,16\n"
            "gate_up              34  q4k_linear  n=20480 k=2560 exact            m=1,16\n"
            "down                 34  q4k_linear  n=2560 k=10240 exact            m=1,16\n"
            "output                1  q4k_linear  n=262208 k=2560 exact           m=1,16\n"
            "attention             5  attention   b=1 heads=8/4 d=256 q=1 causal  kv=1024,4096\n"
            "18 problems\n"
            "not covered: 29 attention layers with a sliding window\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(ProgramTest, dryRunShowsPreparedWeights) {
  const Outcome outcome =
      run({"tune", "--model-shapes", std::string(TILEWRIGHT_SOURCE_DIR) + "/tools/models/gemma-3-4b.json", "--m",
           "1,16", "--q", "1", "--kv", "1024", "--prepared", "--dry-run"});
  EXPECT_EQ(outcome.exitCode, kExitSuccess) << outcome.errors;
  EXPECT_THAT(outcome.output,
              HasSubstr("down                 34  q4k_linear  n=2560 k=10240 exact prepared   m=1,16\n"));
  EXPECT_THAT(outcome.output, HasSubstr("attention   b=1 heads=8/4 d=256 q=1 causal  kv=1024\n"));
}

TEST_F(ProgramTest, dryRunsListingIsInputAgain) {
  const std::string model = std::string(TILEWRIGHT_SOURCE_DIR) + "/tools/models/llama-3.1-8b.json";
  const Outcome first =
      run({"tune", "--model-shapes", model, "--precision", "exact,fp8", "--prepared", "--dry-run", "--json"});
  ASSERT_EQ(first.exitCode, kExitSuccess) << first.errors;
  const auto value = parseJson(first.output);
  ASSERT_TRUE(value) << value.error().message;
  const auto problems = problemListFromJson(*value);
  ASSERT_TRUE(problems) << problems.error().message;
  EXPECT_GT(problems->size(), 200u);
  const Outcome second = run({"tune", "--model-shapes", "-", "--dry-run", "--json"}, first.output);
  EXPECT_EQ(second.exitCode, kExitSuccess) << second.errors;
  EXPECT_EQ(second.output, first.output);
}

TEST_F(ProgramTest, dryRunNeedsNeitherHomeNorDevice) {
  environment_.clear();
  const Outcome outcome =
      run({"tune", "--model-shapes", "-", "--dry-run", "--device", "cuda:99"}, "[" + kProblem + "]");
  EXPECT_EQ(outcome.exitCode, kExitSuccess) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("1 problem\n"));
}

TEST_F(ProgramTest, badModelFilesHaveTheirExitCodes) {
  expectError(run({"tune", "--model-shapes", path("none.json"), "--dry-run"}), kExitNotFound,
              "none.json: no such file");
  expectError(run({"tune", "--model-shapes", write("cut.gguf", "GGUF\3"), "--dry-run"}), kExitCorrupt,
              "cut.gguf: GGUF header ends");
  expectError(run({"tune", "--model-shapes", write("bad.json", "{\"model_type\": }"), "--dry-run"}), kExitUsage,
              "bad.json: line 1, column 16");
  expectError(run({"tune", "--model-shapes", "-", "--dry-run"}, R"([{"op": "attention", "paged": true}])"),
              kExitNotFound, "paged key-value caches are not supported");
}

TEST_F(ProgramTest, devicesListsTheCpuLast) {
  const Outcome text = run({"devices"});
  EXPECT_EQ(text.exitCode, kExitSuccess) << text.errors;
  EXPECT_THAT(text.output, testing::AllOf(testing::StartsWith("device"), HasSubstr("\ncpu ")));
  const Outcome json = run({"devices", "--json"});
  const auto value = parseJson(json.output);
  ASSERT_TRUE(value) << json.output;
  const auto entries = listingEntries(*value, "devices");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_FALSE((*entries)->empty());
  EXPECT_EQ(*(*entries)->back().find("device")->asString(), "cpu");
  EXPECT_THAT(*(*entries)->back().find("target")->asString(), testing::StartsWith("x86-64"));
}

TEST_F(ProgramTest, explainNamesTheKernelOrWhoRefused) {
  const Outcome found = run({"explain", kProblem, "--arch", "sm_90a"});
  EXPECT_EQ(found.exitCode, kExitSuccess) << found.errors;
  EXPECT_THAT(found.output, testing::AllOf(HasSubstr("problem   q4k_linear n=512 k=1024 m=16 exact"),
                                           HasSubstr("kernel    q4k_linear."), HasSubstr("found     default"),
                                           HasSubstr("binary    ")));
  // No template makes code for a GPU of before tensor cores.
  const Outcome none = run({"explain", kProblem, "--arch", "sm_52"});
  EXPECT_EQ(none.exitCode, kExitNotFound);
  EXPECT_THAT(none.output, testing::AllOf(HasSubstr("kernel    none"), HasSubstr("refused   "), HasSubstr("target")));
  const Outcome json = run({"explain", kProblem, "--arch", "sm_52", "--json"});
  EXPECT_EQ(json.exitCode, kExitNotFound);
  const auto value = parseJson(json.output);
  ASSERT_TRUE(value) << json.output;
  EXPECT_EQ(*value->find("provenance")->asString(), "none");
  const auto entries = listingEntries(*value, "plans", {"problem", "device", "provenance"});
  ASSERT_TRUE(entries) << entries.error().message;
  for (const JsonValue& plan : **entries) EXPECT_EQ(*plan.find("status")->asString(), "refused");
}

TEST_F(ProgramTest, explainTellsWhatAPlanKeepsOfItsWeights) {
  const Problem problem{.operation = Operation::kQ4kLinear,
                        .linear = {.n = 14336, .k = 4096, .m = 512, .precision = Precision::kInt8, .prepared = true}};
  const DeviceInfo device = *nominalDevice("sm_90a");
  const Template& fused = *findTemplate("q4k_linear.fused_sm90");
  const Configuration configuration = fused.defaultConfiguration(problem, device);
  const std::int64_t bytes = fused.preparedBytes(problem, device, configuration);
  ASSERT_GT(bytes, 0);
  const std::string file = path("user.twdb");
  const Record winner{.problem = toJson(problem),
                      .device = deviceKey(device),
                      .templateId = std::string(fused.id()),
                      .configuration = configuration.json(),
                      .medianMicroseconds = 20,
                      .madMicroseconds = 0.1,
                      .samples = 15,
                      .resources = R"({"kernels": [], "prepared_bytes": 1, "preparation_us": 12.5})",
                      .toolchain = "none",
                      .date = "2026-11-30T01:30:00Z"};
  ASSERT_TRUE((*Database::open(file, {.access = DatabaseAccess::kCreate}))->commitWinner(winner, {}));

  const Outcome text = run({"explain", toJson(problem), "--arch", "sm_90a", "--db", file});
  EXPECT_THAT(text.output,
              testing::AllOf(HasSubstr("problem   q4k_linear n=14336 k=4096 m=512 int8 prepared\n"),
                             HasSubstr(fmt::format("prepares  {} bytes (bounds) from W in 12.5 us, once: every "
                                                   "call is given them\n",
                                                   bytes))));
  const Outcome json = run({"explain", toJson(problem), "--arch", "sm_90a", "--db", file, "--json"});
  const auto value = parseJson(json.output);
  ASSERT_TRUE(value) << json.output;
  const JsonValue& chosen = value->find("plans")->asArray()->front();
  EXPECT_EQ(*chosen.find("prepared_format")->asString(), "bounds");
  EXPECT_EQ(*chosen.find("prepared_bytes")->asInteger(), bytes);
  EXPECT_EQ(*chosen.find("preparation_us")->asReal(), 12.5);

  Problem unprepared = problem;
  unprepared.linear.prepared = false;
  EXPECT_THAT(
      run({"explain", toJson(unprepared), "--arch", "sm_90a", "--db", file}).output,
      HasSubstr(fmt::format("prepares  {} bytes (bounds) from W, in the call, unless it is given them\n", bytes)));
  EXPECT_THAT(run({"explain", kProblem, "--arch", "sm_80"}).output, testing::Not(HasSubstr("prepares")));
}

TEST_F(ProgramTest, explainTakesWinnersFromTheDatabase) {
  const std::string file = path("user.twdb");
  const Problem problem = *parseProblem(kProblem);
  const std::string device = deviceKey(*nominalDevice("sm_90a"));
  {
    auto database = Database::open(file, {.access = DatabaseAccess::kCreate});
    ASSERT_TRUE(database) << database.error().message;
    Record winner{.problem = toJson(problem),
                  .device = device,
                  .templateId = "q4k_linear.plain_cuda",
                  .configuration = R"({"tile_m": 16, "tile_n": 64, "warps": 4})",
                  .medianMicroseconds = 20,
                  .madMicroseconds = 0.1,
                  .samples = 15,
                  .defaultMicroseconds = 50,
                  .runnerUpMicroseconds = 21,
                  .error = 0.001,
                  .resources = R"({"kernels": [], "outlier_error": 0.0125})",
                  .toolchain = "none",
                  .driverVersion = 13000,
                  .powerLimitWatts = 700,
                  .date = "2026-11-30T01:30:00Z"};
    const Binary binary{.hash = sha256Hex("code"),
                        .buildKey = "key",
                        .target = "sm_90a",
                        .compiler = "none",
                        .bytes = {std::byte{'c'}, std::byte{'o'}, std::byte{'d'}, std::byte{'e'}}};
    const StoredBuild build{.binary = binary, .requestKey = "request", .templateId = "q4k_linear.plain_cuda"};
    const auto committed = (*database)->commitWinner(winner, {&build, 1});
    ASSERT_TRUE(committed) << committed.error().message;
  }
  const Outcome text = run({"explain", kProblem, "--arch", "sm_90a", "--db", file});
  EXPECT_EQ(text.exitCode, kExitSuccess) << text.errors;
  EXPECT_THAT(text.output,
              testing::AllOf(HasSubstr("tile_m=16 tile_n=64 warps=4"), HasSubstr("found     exact"),
                             HasSubstr("database  " + file), HasSubstr("2.50x the default's speed (50.0 us)"),
                             HasSubstr("5.0 % before the next configuration"), HasSubstr("error 1.00e-03"),
                             HasSubstr("error with outlier channels 1.25e-02"),
                             HasSubstr("recorded  2026-11-30T01:30:00Z, 15 runs, median deviation 0.5 %, "
                                       "driver 13000, 700 W, none")));
  // The same file as a system database below a user's that is not there.
  const Outcome system = run({"explain", kProblem, "--arch", "sm_90a", "--system-db", file, "--json"});
  EXPECT_EQ(system.exitCode, kExitSuccess) << system.errors;
  const auto value = parseJson(system.output);
  ASSERT_TRUE(value) << system.output;
  EXPECT_EQ(*value->find("provenance")->asString(), "exact");
  const JsonValue& chosen = value->find("plans")->asArray()->front();
  EXPECT_EQ(*chosen.find("status")->asString(), "chosen");
  EXPECT_EQ(*chosen.find("database")->asString(), file);
  EXPECT_EQ(*chosen.find("date")->asString(), "2026-11-30T01:30:00Z");
  EXPECT_EQ(*chosen.find("error")->asReal(), 0.001);
  EXPECT_EQ(*chosen.find("outlier_error")->asReal(), 0.0125);
  EXPECT_FALSE(chosen.find("binaries")->asArray()->empty());

  const Outcome shown = run({"db", "show", file});
  EXPECT_EQ(shown.exitCode, kExitSuccess) << shown.errors;
  EXPECT_THAT(shown.output, testing::AllOf(HasSubstr(device), HasSubstr("q4k_linear n=512 k=1024 m=16 exact"),
                                           HasSubstr("2.50x"), HasSubstr("1 winners in ")));
  const Outcome listed = run({"db", "show", file, "--json"});
  const auto listing = parseJson(listed.output);
  ASSERT_TRUE(listing) << listed.output;
  const auto winners = listingEntries(*listing, "winners");
  ASSERT_TRUE(winners) << winners.error().message;
  ASSERT_EQ((*winners)->size(), 1u);
  EXPECT_EQ((*winners)->front().find("problem")->text(), toJson(problem));
  EXPECT_EQ((*winners)->front().find("median_us")->text(), "20");
  const Outcome filtered = run({"db", "show", file, "--template", "attention.plain_cuda"});
  EXPECT_THAT(filtered.output, testing::StartsWith("0 winners"));
}

TEST_F(ProgramTest, databasesAreListedVerifiedMergedAndExported) {
  ASSERT_TRUE(Database::open(path("a.twdb"), {.access = DatabaseAccess::kCreate}));
  for (const auto& arguments :
       std::initializer_list<std::vector<std::string>>{{"db", "ls", path("a.twdb")},
                                                       {"db", "verify", path("a.twdb")},
                                                       {"db", "merge", path("a.twdb")},
                                                       {"db", "export", path("b.twdb")},
                                                       {"db", "verify", path("b.twdb"), path("a.twdb")}}) {
    for (const bool json : {false, true}) {
      auto all = arguments;
      if (json) all.push_back("--json");
      if (json && arguments[1] == "export") all.push_back("--overwrite");
      const Outcome outcome = run(all);
      EXPECT_EQ(outcome.exitCode, kExitSuccess) << arguments[1] << ": " << outcome.errors;
      if (json) {
        const auto value = parseJson(outcome.output);
        ASSERT_TRUE(value) << outcome.output;
        EXPECT_EQ(value->asObject()->size(), 2u);
      }
    }
  }
  // merge made the user's database below HOME.
  EXPECT_TRUE(std::filesystem::exists(folder_ / "home/.cache/tilewright/user.twdb"));
  expectError(run({"db", "export", path("b.twdb")}), kExitUsage, "b.twdb");
}

TEST_F(ProgramTest, databasesThatCannotBeReadHaveTheirExitCodes) {
  expectError(run({"db", "show"}), kExitNotFound, "user.twdb");
  expectError(run({"db", "show", path("none.twdb")}), kExitNotFound, "none.twdb");
  expectError(run({"db", "verify", write("text.twdb", "this is no database")}), kExitCorrupt, "text.twdb");
  expectError(run({"db", "merge", path("none.twdb")}), kExitNotFound, "none.twdb");
  expectError(run({"explain", kProblem, "--arch", "sm_90a", "--db", path("none.twdb")}), kExitNotFound, "none.twdb");
  ASSERT_TRUE(Database::open(path("a.twdb"), {.access = DatabaseAccess::kCreate}));
  expectError(run({"db", "merge", path("a.twdb"), "--db", path("a.twdb")}), kExitUsage, "cannot merge");
}

TEST_F(ProgramTest, oneBadDatabaseHidesNoOther) {
  ASSERT_TRUE(Database::open(path("a.twdb"), {.access = DatabaseAccess::kCreate}));
  const std::string text = write("text.twdb", "this is no database");
  for (const std::string action : {"ls", "verify"}) {
    const Outcome outcome = run({"db", action, path("none.twdb"), text, path("a.twdb")});
    EXPECT_EQ(outcome.exitCode, kExitCorrupt);
    EXPECT_THAT(outcome.output, HasSubstr(path("a.twdb")));
    EXPECT_THAT(outcome.errors, testing::AllOf(HasSubstr("none.twdb"), HasSubstr("text.twdb")));
  }
  const Outcome verified = run({"db", "verify", "--json", text, path("a.twdb")});
  EXPECT_EQ(verified.exitCode, kExitCorrupt);
  const auto listing = parseJson(verified.output);
  ASSERT_TRUE(listing) << verified.output;
  EXPECT_EQ(listing->find("databases")->asArray()->size(), 2u);

  // A merge that cannot read its sources leaves no trace of itself.
  expectError(run({"db", "merge", path("a.twdb"), text, "--db", path("new.twdb")}), kExitCorrupt, "text.twdb");
  EXPECT_FALSE(std::filesystem::exists(path("new.twdb")));
}

TEST_F(ProgramTest, aListWithoutProblemsIsNamed) {
  expectError(run({"tune", "--model-shapes", "-", "--device", "cpu", "--db", path("a.twdb")}, "[]"), kExitNotFound,
              "no problems: the input lists none");
  expectError(run({"bench", "--model-shapes", "-", "--device", "cpu"}, "[]"), kExitNotFound, "no problems");
  expectError(run({"tune", "--model-shapes", "-", "--db", path("a.twdb")},
                  R"({"num_hidden_layers": 1, "is_encoder_decoder": true, "hidden_size": 8})"),
              kExitNotFound, "has only what is not covered: 1 encoder-decoder layers");
  EXPECT_FALSE(std::filesystem::exists(path("a.twdb")));
}

TEST_F(ProgramTest, aMissingDriverIsNotAMissingDevice) {
  const bool hasDriver = run({"devices"}).errors.find("libcuda") == std::string::npos;
  expectError(run({"bench", kProblem, "--device", "cuda:99"}), hasDriver ? kExitNotFound : kExitUnavailable,
              "no device cuda:99");
}

TEST_F(ProgramTest, messagesKeepControlCharactersToThemselves) {
  const Outcome outcome = run({"explain", R"({"op": "\u001b[2J\u0000\n"})"});
  EXPECT_EQ(outcome.exitCode, kExitUsage);
  EXPECT_THAT(outcome.errors, HasSubstr("\\x1b[2J\\x00\\x0a"));
  EXPECT_EQ(outcome.errors.find('\x1b'), std::string::npos);
}

TEST_F(ProgramTest, withoutAHomeOnlyTheUsersDatabaseIsMissing) {
  environment_.clear();
  expectError(run({"db", "show"}), kExitNotFound,
              "neither XDG_CACHE_HOME nor HOME is an absolute path; name the file with --db");
  const Outcome explained = run({"explain", kProblem, "--arch", "sm_90a"});
  EXPECT_EQ(explained.exitCode, kExitSuccess);
  EXPECT_THAT(explained.errors, HasSubstr("neither XDG_CACHE_HOME nor HOME"));
  environment_ = {"XDG_CACHE_HOME=relative", "HOME=also/relative"};
  expectError(run({"db", "show"}), kExitNotFound, "neither XDG_CACHE_HOME nor HOME");
  environment_ = {"XDG_CACHE_HOME=" + path("cache"), "HOME=/elsewhere"};
  expectError(run({"db", "show"}), kExitNotFound, path("cache") + "/tilewright/user.twdb");
}

TEST_F(ProgramTest, aDamagedUsersDatabaseIsLeftOutWithANote) {
  std::filesystem::create_directories(folder_ / "home/.cache/tilewright");
  write("home/.cache/tilewright/user.twdb", "this is no database");
  const Outcome outcome = run({"explain", kProblem, "--arch", "sm_90a"});
  EXPECT_EQ(outcome.exitCode, kExitSuccess);
  EXPECT_THAT(outcome.errors, testing::AllOf(HasSubstr("user.twdb"), HasSubstr("going on without it")));
}

TEST_F(ProgramTest, compilePrintsTheRequestWithoutACompiler) {
  const Outcome outcome = run({"compile", kProblem, "--arch", "sm_90a", "--emit", "request"});
  EXPECT_EQ(outcome.exitCode, kExitSuccess) << outcome.errors;
  const auto value = parseJson(outcome.output);
  ASSERT_TRUE(value) << outcome.output;
  const auto requests = listingEntries(*value, "requests");
  ASSERT_TRUE(requests) << requests.error().message;
  ASSERT_FALSE((*requests)->empty());
  EXPECT_EQ(*(*requests)->front().find("target")->asString(), "sm_90a");
  EXPECT_EQ((*requests)->front().find("request_key")->asString()->size(), 64u);

  const Outcome source =
      run({"compile", kProblem, "--arch", "sm_90a", "--emit", "source", "--output", path("kernel.cu")});
  EXPECT_EQ(source.exitCode, kExitSuccess) << source.errors;
  EXPECT_EQ(source.output, "");
  EXPECT_THAT(readBack("kernel.cu"), HasSubstr("__global__"));
}

TEST_F(ProgramTest, compileEmitsEveryStageOfATileProgram) {
  if (!TILEWRIGHT_HAS_TILE) GTEST_SKIP() << "built without the tile compiler";
  struct Case {
    std::string stage, part;
  };
  for (const auto& [stage, part] : std::initializer_list<Case>{{"request", "\"kind\": \"tile\""},
                                                               {"tile", "tile.program_id"},
                                                               {"llvm", "define "},
                                                               {"assembly", ".text"},
                                                               {"object",
                                                                "\x7f"
                                                                "ELF"},
                                                               {"resources", "q4kLinearPortable"}}) {
    const Outcome outcome = run({"compile", kProblem, "--arch", "x86-64-v3", "--emit", stage});
    EXPECT_EQ(outcome.exitCode, kExitSuccess) << stage << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr(part)) << stage;
  }
  expectError(run({"compile", kProblem, "--arch", "x86-64-v3", "--emit", "ptx"}), kExitNotFound, "has no stage ptx");
}

TEST_F(ProgramTest, compileEmitsEveryStageOfACudaTemplate) {
  for (const auto& [stage, part] :
       std::initializer_list<std::pair<std::string, std::string>>{{"ptx", ".target sm_90a"},
                                                                  {"cubin",
                                                                   "\x7f"
                                                                   "ELF"},
                                                                  {"resources", "registers"}}) {
    const Outcome outcome = run({"compile", kProblem, "--arch", "sm_90a", "--emit", stage});
    if (outcome.exitCode == kExitUnavailable) GTEST_SKIP() << "no NVRTC: " << outcome.errors;
    EXPECT_EQ(outcome.exitCode, kExitSuccess) << stage << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr(part)) << stage;
  }
  expectError(run({"compile", kProblem, "--arch", "sm_90a", "--emit", "llvm"}), kExitNotFound, "has no stage llvm");
}

TEST_F(ProgramTest, compileRefusesPlansByName) {
  const auto compile = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", kProblem, "--arch", "sm_90a"});
    return run(more);
  };
  expectError(compile({"--template", "q4k_linear.magic"}), kExitNotFound,
              "unknown template 'q4k_linear.magic'; known are ");
  expectError(compile({"--template", "attention.plain_cuda"}), kExitUsage,
              "computes attention, the problem is q4k_linear");
  expectError(compile({"--template", "q4k_linear.plain_cuda", "--config", R"({"wings": 2})"}), kExitUsage,
              "has no parameter 'wings'; it has ");
  expectError(compile({"--template", "q4k_linear.plain_cuda", "--config", R"({"warps": 3})"}), kExitUsage,
              "cannot build");
  expectError(compile({"--emit", "tile"}), kExitNotFound, "has no stage tile");
  expectError(compile({"--emit", "ptx", "--json"}), kExitUsage, "--json is for");
  expectError(compile({"--emit", "request", "-o", path("missing/folder/x.json")}), kExitFailure,
              "x.json: No such file or directory");
  expectError(run({"compile", kProblem, "--arch", "sm_52"}), kExitNotFound,
              "no template computes this problem for sm_52");
}

TEST_F(ProgramTest, aFullDiskBehindTheOutputIsAFailure) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  output_ = "/dev/full";
  const Outcome outcome = run({"devices"});
  EXPECT_EQ(outcome.exitCode, kExitFailure);
  EXPECT_THAT(outcome.errors, HasSubstr("tilewright: "));
}

}  // namespace
}  // namespace tilewright
