// `tilewright tune` and `bench` as processes, on the CPU: winners that the next run finds, ^C, a database that stays
// whole, and what a measurement prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "format/json_parse.h"
#include "format/listing.h"
#include "tests/tools/program_fixture.h"
#include "tools/exit_code.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

class TuneProgramTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (!TILEWRIGHT_HAS_TILE) GTEST_SKIP() << "built without the tile compiler, which makes the CPU's kernels";
    ProgramTest::SetUp();
  }

  /// Linears of a few microseconds, m from 1 to `count`.
  std::string problems(int count) const {
    std::string csv = "op,n,k,m\n";
    for (int m = 1; m <= count; ++m) csv += fmt::format("linear,64,64,{}\n", m);
    return write("problems.csv", csv);
  }
  std::vector<std::string> tune(const std::string& list, const std::string& budget) const {
    return {"tune", "--device",         "cpu",      "--model-shapes", list,
            "--db", path("tuned.twdb"), "--budget", budget,           "--json"};
  }
  /// How many outcomes have a status.
  static int count(const Outcome& outcome, std::string_view status) {
    const auto listing = parseJson(outcome.output);
    if (!listing) return -1;
    const auto outcomes = listingEntries(*listing, "outcomes", {"stopped", "seconds", "builds", "worker_starts"});
    if (!outcomes) return -1;
    return static_cast<int>(std::ranges::count_if(
        **outcomes, [&](const JsonValue& each) { return *each.find("status")->asString() == status; }));
  }
  void expectWhole() {
    const Outcome verified = run({"db", "verify", path("tuned.twdb")});
    EXPECT_EQ(verified.exitCode, kExitSuccess) << verified.output << verified.errors;
  }
};

TEST_F(TuneProgramTest, winnersAreKeptFoundAndNotTunedAgain) {
  const std::string list = problems(2);
  const Outcome first = run(tune(list, "120s"));
  ASSERT_EQ(first.exitCode, kExitSuccess) << first.errors;
  EXPECT_EQ(count(first, "tuned"), 2) << first.output;
  const Outcome again = run(tune(list, "120s"));
  EXPECT_EQ(again.exitCode, kExitSuccess) << again.errors;
  EXPECT_EQ(count(again, "done before"), 2) << again.output;
  const Outcome explained =
      run({"explain", R"({"op": "linear", "n": 64, "k": 64, "m": 2})", "--device", "cpu", "--db", path("tuned.twdb")});
  EXPECT_THAT(explained.output, testing::AllOf(HasSubstr("found     exact"), HasSubstr("in " + path("tuned.twdb"))));
  expectWhole();

  // What was exported runs and is measured: a line each for the winner and for the default, which may be one.
  const Outcome exported = run({"db", "export", path("shipped.twdb"), "--db", path("tuned.twdb")});
  ASSERT_EQ(exported.exitCode, kExitSuccess) << exported.errors;
  const Outcome bench = run({"bench", R"({"op": "linear", "n": 64, "k": 64, "m": 2})", "--device", "cpu", "--db",
                             path("shipped.twdb"), "--repeats", "5"});
  EXPECT_EQ(bench.exitCode, kExitSuccess) << bench.errors;
  std::istringstream lines(bench.output);
  int count = 0, exact = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto value = parseJson(line);
    ASSERT_TRUE(value) << line;
    for (const char* field : {"problem", "device", "template", "configuration", "provenance", "default", "median_us",
                              "low_us", "high_us", "mad_us", "samples", "tflops", "gb_per_s", "roofline", "error"}) {
      EXPECT_NE(value->find(field), nullptr) << field << " in " << line;
    }
    EXPECT_TRUE(*value->find("verified")->asBoolean()) << line;
    EXPECT_EQ(*value->find("samples")->asInteger(), 5);
    exact += *value->find("provenance")->asString() == "exact";
  }
  EXPECT_THAT(count, testing::AnyOf(1, 2)) << bench.output;
  EXPECT_EQ(exact, 1) << bench.output;
}

TEST_F(TuneProgramTest, anInterruptEndsTheSweepWithWhatItHas) {
  const pid_t child = start(tune(problems(40), "600s"));
  // A line on standard error tells of each winner.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (readBack("stderr").find("linear n=64") == std::string::npos && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(child, SIGINT);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.exitCode, kExitSuccess) << outcome.errors;
  const int tuned = count(outcome, "tuned"), left = count(outcome, "left");
  EXPECT_GE(tuned, 1) << outcome.output;
  EXPECT_EQ(tuned + left, 40);
  EXPECT_EQ(*parseJson(outcome.output)->find("stopped")->asBoolean(), true);
  EXPECT_THAT(outcome.output, HasSubstr("the sweep was stopped"));
  expectWhole();
  // The next run takes up what is left.
  EXPECT_EQ(count(run(tune(problems(40), "1s")), "done before"), tuned);
}

}  // namespace
}  // namespace tilewright
