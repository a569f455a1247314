// Flags: what they mean, and what is refused with which words.
#include "tools/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

using testing::HasSubstr;

const Environment kEnvironment{.cacheHome = "/cache", .cudaDirectories = {"/cuda"}};

Result<std::variant<Options, HelpText>> parse(std::vector<const char*> arguments) {
  return parseCommandLine(arguments, kEnvironment);
}

Options optionsOf(std::vector<const char*> arguments) {
  auto parsed = parse(std::move(arguments));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? std::get<Options>(*parsed) : Options{};
}

TEST(CommandLine, tuneReadsShapesDeviceAndBudget) {
  const Options options = optionsOf({"tune",
                                     "--model-shapes",
                                     "a.json",
                                     "b.gguf",
                                     "--model-shapes",
                                     "-",
                                     "--m",
                                     "1,8:32:x2",
                                     "--q",
                                     "1",
                                     "--kv",
                                     "64",
                                     "--batch",
                                     "2",
                                     "--tp",
                                     "4",
                                     "--precision",
                                     "fp8,exact,fp8",
                                     "--device",
                                     "cuda:1",
                                     "--arch",
                                     "sm_90a",
                                     "--db",
                                     "u.twdb",
                                     "--system-db",
                                     "s.twdb",
                                     "--system-db",
                                     "t.twdb",
                                     "--budget",
                                     "1.5m",
                                     "--compile-only",
                                     "--force",
                                     "--jobs",
                                     "3",
                                     "--seed",
                                     "7",
                                     "--json"});
  EXPECT_EQ(options.verb, Verb::kTune);
  EXPECT_THAT(options.modelShapes, testing::ElementsAre("a.json", "b.gguf", "-"));
  EXPECT_THAT(options.shapes.rows, testing::ElementsAre(1, 8, 16, 32));
  EXPECT_THAT(options.shapes.queries, testing::ElementsAre(1));
  EXPECT_THAT(options.shapes.keys, testing::ElementsAre(64));
  EXPECT_THAT(options.shapes.batches, testing::ElementsAre(2));
  EXPECT_EQ(options.shapes.tensorParallel, 4);
  EXPECT_THAT(options.shapes.precisions, testing::ElementsAre(Precision::kFp8, Precision::kExact));
  EXPECT_EQ(options.device.device, "cuda:1");
  EXPECT_EQ(options.device.arch, "sm_90a");
  EXPECT_EQ(options.databases.user, "u.twdb");
  EXPECT_THAT(options.databases.systems, testing::ElementsAre("s.twdb", "t.twdb"));
  EXPECT_EQ(options.tune.budgetSeconds, 90);
  EXPECT_TRUE(options.tune.compileOnly && options.tune.force && !options.tune.dryRun);
  EXPECT_EQ(options.tune.jobs, 3);
  EXPECT_EQ(options.tune.seed, 7u);
  EXPECT_TRUE(options.json);
  EXPECT_EQ(options.environment.cudaDirectories, kEnvironment.cudaDirectories);
}

TEST(CommandLine, whatIsNotGivenHasDefaults) {
  const Options options = optionsOf({"tune", "--model-shapes", "a.json"});
  EXPECT_TRUE(options.shapes.rows.empty());
  EXPECT_THAT(options.shapes.precisions, testing::ElementsAre(Precision::kExact));
  EXPECT_EQ(options.shapes.tensorParallel, 1);
  EXPECT_FALSE(options.databases.user || options.tune.budgetSeconds || options.problem || options.json);
}

TEST(CommandLine, modelShapesAreForPreparedWeightsIfAsked) {
  EXPECT_TRUE(optionsOf({"tune", "--model-shapes", "a.json", "--prepared"}).shapes.prepared);
  EXPECT_TRUE(optionsOf({"bench", "--model-shapes", "a.json", "--prepared"}).shapes.prepared);
  EXPECT_FALSE(optionsOf({"tune", "--model-shapes", "a.json"}).shapes.prepared);
}

TEST(CommandLine, budgetsHaveUnits) {
  for (const auto& [text, seconds] : std::initializer_list<std::pair<const char*, double>>{
           {"0", 0}, {"90", 90}, {"2.5s", 2.5}, {"10m", 600}, {"2h", 7200}}) {
    EXPECT_EQ(optionsOf({"tune", "--model-shapes", "a", "--budget", text}).tune.budgetSeconds, seconds) << text;
  }
}

TEST(CommandLine, aProblemIsJsonOrFlags) {
  const Problem attention{.operation = Operation::kAttention,
                          .alignment = Alignment::kAny,
                          .attention = {.batch = 2,
                                        .qHeads = 32,
                                        .kvHeads = 8,
                                        .headDim = 128,
                                        .qLen = 512,
                                        .kvLen = 16384,
                                        .causal = true,
                                        .logSumExp = true}};
  EXPECT_EQ(optionsOf({"explain", toJson(attention).c_str()}).problem, attention);
  EXPECT_EQ(optionsOf({"explain",    "--op",     "attention",  "--batch",     "2",       "--q-heads", "32",
                       "--kv-heads", "8",        "--head-dim", "128",         "--q-len", "512",       "--kv-len",
                       "16384",      "--causal", "--lse",      "--alignment", "any",     "--dtype",   "bf16"})
                .problem,
            attention);
  const Problem linear{
      .operation = Operation::kQ4kLinear,
      .linear = {.n = 8, .k = 256, .m = 3, .precision = Precision::kInt8, .bias = true, .prepared = true}};
  EXPECT_EQ(optionsOf({"compile", "--op", "q4k_linear", "--n", "8", "--k", "256", "--m=3", "--precision", "int8",
                       "--bias", "--prepared"})
                .problem,
            linear);
  EXPECT_FALSE(
      optionsOf({"explain", "--op", "q4k_linear", "--n", "8", "--k", "256", "--m", "3"}).problem->linear.prepared);
}

TEST(CommandLine, compileAndBenchChooseAPlan) {
  const Options compile =
      optionsOf({"compile", R"({"op": "linear", "n": 8, "k": 8, "m": 1})", "--template", "linear.portable", "--config",
                 R"({"tile_m": 4})", "--emit", "llvm", "-o", "out.ll"});
  EXPECT_EQ(compile.templateId, "linear.portable");
  EXPECT_EQ(compile.configuration, Configuration({{"tile_m", 4}}));
  EXPECT_EQ(compile.compile.stage, "llvm");
  EXPECT_EQ(compile.compile.output, "out.ll");
  const Options bench = optionsOf({"bench", "--model-shapes", "a.json", "--m", "1", "--repeats", "5", "--all"});
  EXPECT_EQ(bench.bench.repeats, 5);
  EXPECT_TRUE(bench.bench.allPlans);
}

TEST(CommandLine, databaseActionsHaveFiles) {
  using Action = DatabaseCommand::Action;
  EXPECT_EQ(optionsOf({"db", "ls"}).database.action, Action::kList);
  const Options show = optionsOf({"db", "show", "a.twdb", "--records", "--template", "t", "--problem",
                                  R"({"m": 1, "op": "linear", "n": 8, "k": 8})"});
  EXPECT_EQ(show.verb, Verb::kDatabase);
  EXPECT_EQ(show.database.action, Action::kShow);
  EXPECT_TRUE(show.database.records);
  EXPECT_EQ(show.database.problem, R"({"op": "linear", "n": 8, "k": 8, "m": 1})");
  EXPECT_THAT(optionsOf({"db", "verify", "a.twdb", "b.twdb"}).database.files, testing::ElementsAre("a.twdb", "b.twdb"));
  EXPECT_THAT(optionsOf({"db", "merge", "a.twdb", "b.twdb"}).database.files, testing::ElementsAre("a.twdb", "b.twdb"));
  const Options exported = optionsOf({"db", "export", "a.twdb", "--winners-only", "--overwrite", "--db", "u.twdb"});
  EXPECT_TRUE(exported.database.winnersOnly && exported.database.overwrite);
  EXPECT_EQ(exported.databases.user, "u.twdb");
}

TEST(CommandLine, everyVerbHasHelpWithAnExampleAndExitCodes) {
  for (const auto& verb : std::initializer_list<std::vector<const char*>>{{"tune"},
                                                                          {"explain"},
                                                                          {"bench"},
                                                                          {"db"},
                                                                          {"devices"},
                                                                          {"compile"},
                                                                          {"db", "ls"},
                                                                          {"db", "show"},
                                                                          {"db", "verify"},
                                                                          {"db", "merge"},
                                                                          {"db", "export"},
                                                                          {}}) {
    auto arguments = verb;
    arguments.push_back("--help");
    const auto parsed = parse(arguments);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto* help = std::get_if<HelpText>(&*parsed);
    ASSERT_NE(help, nullptr);
    EXPECT_THAT(help->text, testing::AllOf(HasSubstr("Examples:\n  tilewright "), HasSubstr("Exit codes: 0 done"),
                                           testing::Not(HasSubstr("tune-worker"))));
    if (!verb.empty() && std::string_view(verb.back()) != "db") {
      EXPECT_THAT(help->text, HasSubstr("--json")) << verb.back();
    }
  }
  const auto version = parse({"--version"});
  ASSERT_TRUE(version);
  EXPECT_THAT(std::get<HelpText>(*version).text, testing::MatchesRegex("tilewright [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(CommandLine, mistakesAreNamed) {
  const char* problem = R"({"op": "linear", "n": 8, "k": 8, "m": 1})";
  struct Case {
    std::vector<const char*> arguments;
    std::string_view message;
    ErrorCode code = ErrorCode::kInvalidArgument;
  };
  for (const auto& [arguments, message, code] : std::initializer_list<Case>{
           {{}, "subcommand is required (see tilewright --help)"},
           {{"fly"}, "unknown verb 'fly' (see tilewright --help)"},
           {{"tune", "--wings"}, "--wings"},
           {{"tune", "--wings"}, "(see tilewright tune --help)"},
           {{"tune"}, "name a model with --model-shapes"},
           {{"tune", "--model-shapes"}, "--model-shapes"},
           {{"tune", "--model-shapes", "a", "--m", "x"}, "--m: cannot read 'x'"},
           {{"tune", "--model-shapes", "a", "--m", "-1"}, "-1"},
           {{"tune", "--model-shapes", "a", "--m=-1"}, "--m: '-1' is out of range"},
           {{"tune", "--model-shapes", "a", "--batch", "0"}, "--batch: '0' is out of range, sizes must be from 1"},
           {{"tune", "--model-shapes", "a", "--tp", "0"}, "--tp"},
           {{"bench", problem, "--prepared"},
            R"(--prepared is for the problems of --model-shapes; in JSON, say "prep)"},
           {{"explain", "--op", "linear", "--n", "8", "--k", "8", "--m", "1", "--prepared"},
            "prepared is true, must be false: only q4k_linear prepares its weights"},
           {{"tune", "--model-shapes", "a", "--tp", "two"}, "--tp"},
           {{"tune", "--model-shapes", "a", "--precision", "fp4"},
            "--precision: 'fp4' must be exact, fp8, int8 or fast"},
           {{"tune", "--model-shapes", "a", "--precision", "fp8,"}, "--precision: '' must be"},
           {{"tune", "--model-shapes", "a", "--device", "gpu"}, "--device: 'gpu' must be cpu or cuda:N"},
           {{"tune", "--model-shapes", "a", "--device", "cuda:"}, "--device: 'cuda:' must be"},
           {{"tune", "--model-shapes", "a", "--device", "cuda:-1"}, "--device: 'cuda:-1' must be"},
           {{"tune", "--model-shapes", "a", "--device", "cuda:0x"}, "--device: 'cuda:0x' must be"},
           {{"tune", "--model-shapes", "a", "--arch", "sm_9x"}, "sm_9x"},
           {{"tune", "--model-shapes", "a", "--arch", "riscv"}, "unknown target 'riscv'"},
           {{"tune", "--model-shapes", "a", "--budget", "soon"}, "--budget: 'soon' must be a time"},
           {{"tune", "--model-shapes", "a", "--budget", "-5"}, "-5"},
           {{"tune", "--model-shapes", "a", "--budget", "5d"}, "--budget: '5d' must be a time"},
           {{"tune", "--model-shapes", "a", "--budget", "nan"}, "--budget: 'nan' must be a time"},
           {{"tune", "--model-shapes", "a", "--dry-run", "--compile-only"}, "exclude each other"},
           {{"tune", "--model-shapes", "a", "--device", ""}, "--device: the value is empty"},
           {{"tune", "--model-shapes", "a", "--budget="}, "--budget"},
           {{"explain", problem, "--arch", ""}, "--arch: the value is empty"},
           {{"explain", ""}, "problem: the value is empty"},
           {{"db", "export", ""}, "target: the value is empty"},
           {{"explain"}, "no problem: give it as JSON, or by flags"},
           {{"explain", "--op", "linear"}, "key 'n' is missing"},
           {{"explain", "--n", "8"}, "key 'op' is missing"},
           {{"explain", "--op", "linear", "--n", "8x", "--k", "8", "--m", "1"}, "--n: '8x' must be a 64-bit integer"},
           {{"explain", "--op", "linear", "--n", "99999999999999999999"},
            "--n: '99999999999999999999' must be a 64-bit integer"},
           {{"explain", "--op", "linear", "--n", "0", "--k", "8", "--m", "1"}, "n is 0, must be from 1"},
           {{"explain", "--op", "linear", "--n", "8", "--k", "8", "--m", "1", "--causal"}, "unknown key 'causal'"},
           {{"explain", "--op", "attention", "--dtype", "fp8"},
            "attention on 'fp8' is not supported",
            ErrorCode::kUnsupported},
           {{"explain", "{"}, "cannot read the problem: line 1, column 2"},
           {{"explain", problem, "--op", "linear", "--n", "8", "--k", "8", "--m", "1"}, "both as JSON and by flags"},
           {{"explain", problem, problem}, "tilewright explain --help"},
           {{"explain", R"({"op": "attention", "softcap": 1})"},
            "soft capping is not supported",
            ErrorCode::kUnsupported},
           {{"bench"}, "no problems: give one as JSON, or name a model"},
           {{"bench", problem, "--repeats", "0"}, "--repeats"},
           {{"bench", problem, "--config", "{}"}, "--config needs --template"},
           {{"compile", problem, "--template", "t", "--config", R"({"a": 1.5})"},
            "--config: line 1, column 7, at a: expected an integer"},
           {{"compile", problem, "--emit", "sass"}, "--emit"},
           {{"db"}, "subcommand is required (see tilewright db --help)"},
           {{"db", "fly"}, "unknown verb 'fly' (see tilewright db --help)"},
           {{"db", "merge"}, "source"},
           {{"db", "export"}, "target"},
           {{"db", "show", "--problem", "7"}, "expected an object"},
           {{"devices", "extra"}, "extra"},
       }) {
    const auto parsed = parse(arguments);
    ASSERT_FALSE(parsed) << testing::PrintToString(std::vector<std::string>(arguments.begin(), arguments.end()));
    EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string(message)));
    EXPECT_THAT(parsed.error().message, testing::Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace tilewright
