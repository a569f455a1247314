// `tilewright tune` as a process, on the CPU: winners that the next run finds, ^C, and a database that stays whole.
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
