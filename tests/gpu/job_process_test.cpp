// Children that pass, fail, die and hang.
#include "tests/gpu/job_process.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tilewright::probe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Runs `count` jobs, of which `special` behaves as told; what it lost is "job: reason" each.
int runWith(int count, double timeout, const std::function<JobEnd(int)>& run, std::vector<std::string>& lost) {
  return runIsolated(count, timeout, run,
                     [&](int job, const std::string& reason) { lost.push_back(std::to_string(job) + ": " + reason); });
}

TEST(RunIsolated, countsWhatDidNotPass) {
  std::vector<std::string> lost;
  const auto run = [](int job) { return job == 1 ? JobEnd::kFailed : job == 2 ? JobEnd::kSpoilt : JobEnd::kPassed; };
  EXPECT_EQ(runWith(5, 60, run, lost), 2);
  EXPECT_THAT(lost, IsEmpty());
}

TEST(RunIsolated, startsANewProcessBehindASpoiltOne) {
  // Each job sees in its own copy of `jobs` how many ran in its process before: the first after a spoilt one sees none.
  std::vector<std::string> lost;
  int jobs = 0;
  const auto run = [&](int job) {
    const bool fresh = jobs++ == 0;
    if (fresh != (job == 0 || job == 3)) return JobEnd::kFailed;
    return job == 2 ? JobEnd::kSpoilt : JobEnd::kPassed;
  };
  EXPECT_EQ(runWith(5, 60, run, lost), 1);
  EXPECT_THAT(lost, IsEmpty());
}

TEST(RunIsolated, goesOnBehindADeath) {
  std::vector<std::string> lost;
  const auto run = [](int job) {
    if (job == 0) raise(SIGKILL);
    if (job == 2) _exit(7);
    return JobEnd::kPassed;
  };
  EXPECT_EQ(runWith(4, 60, run, lost), 2);
  EXPECT_THAT(
      lost, ElementsAre(HasSubstr("0: its process died of signal 9"), HasSubstr("2: its process ended with status 7")));
}

TEST(RunIsolated, killsWhatHangs) {
  std::vector<std::string> lost;
  const auto run = [](int job) {
    while (job == 1) sleep(60);
    return JobEnd::kPassed;
  };
  EXPECT_EQ(runWith(3, 0.5, run, lost), 1);
  EXPECT_THAT(lost, ElementsAre(HasSubstr("1: no result within 0.5 s")));
}

}  // namespace
}  // namespace tilewright::probe
