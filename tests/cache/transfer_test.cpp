// Export and merge: an export is one closed file with all that the target machine needs; a merge loses no measurement.
#include "cache/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/cache/samples.h"

namespace tilewright {
namespace {

using samples::build;
using samples::kDevice;
using samples::problemText;
using samples::record;
using samples::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TransferTest : public testing::Test {
 protected:
  std::vector<std::string> filesInFolder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Database> database_ = samples::open(folder_ / "a.twdb");
};

TEST_F(TransferTest, anExportIsOneClosedFileWithWinnersAndDefaults) {
  ASSERT_TRUE(database_->commitWinner(record(1, 14), std::vector{build("old")}, "policy"));
  ASSERT_TRUE(database_->commitWinner(record(1, 12), std::vector{build("new")}, "policy"));
  ASSERT_TRUE(database_->addDefaultBuilds(std::vector{DefaultBuild{build("default"), ""}}));
  ASSERT_TRUE(database_->addBuilds(std::vector{build("candidate")}));

  const auto report = exportDatabase(*database_, folder_ / "shipped.twdb", {.winnersOnly = true});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->winners, 1);
  EXPECT_EQ(report->records, 1);
  EXPECT_EQ(report->builds, 2);
  EXPECT_THAT(report->missingDefaults, IsEmpty());
  EXPECT_EQ(report->bytes, static_cast<std::int64_t>(std::filesystem::file_size(folder_ / "shipped.twdb")));

  database_.reset();
  EXPECT_THAT(filesInFolder(), ElementsAre("a.twdb", "shipped.twdb"));
  // Bytes 18 and 19 of the header: 1 for a rollback journal, 2 for WAL.
  std::ifstream file(folder_ / "shipped.twdb", std::ios::binary);
  std::string header(100, '\0');
  file.read(header.data(), 100);
  EXPECT_EQ(header[18], 1);
  EXPECT_EQ(header[19], 1);

  const auto shipped = samples::open(folder_ / "shipped.twdb", DatabaseAccess::kRead);
  EXPECT_TRUE(shipped->findByRequest(build("new").requestKey));
  EXPECT_TRUE(shipped->findByRequest(build("default").requestKey));
  EXPECT_EQ(shipped->findByRequest(build("old").requestKey).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(shipped->findByRequest(build("candidate").requestKey).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(*shipped->doneProblems(kDevice, "policy"), IsEmpty());
  EXPECT_THAT(shipped->verify()->problems, IsEmpty());
}

TEST_F(TransferTest, aMissingDefaultIsReported) {
  ASSERT_TRUE(database_->commitWinner(record(1), std::vector{build("a")}));
  const auto report = exportDatabase(*database_, folder_ / "b.twdb");
  ASSERT_TRUE(report);
  EXPECT_THAT(report->missingDefaults, ElementsAre("q4k_linear.fused_sm90 sm_90a"));
}

TEST_F(TransferTest, anExistingTargetIsReplacedOnlyWhenAsked) {
  ASSERT_TRUE(database_->commitWinner(record(1), {}));
  std::ofstream(folder_ / "b.twdb") << "precious";
  const auto refused = exportDatabase(*database_, folder_ / "b.twdb");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the file exists"));
  EXPECT_EQ(std::filesystem::file_size(folder_ / "b.twdb"), 8u);
  EXPECT_TRUE(exportDatabase(*database_, folder_ / "b.twdb", {.overwrite = true}));
  EXPECT_THAT(samples::winnersOf(folder_ / "b.twdb"), SizeIs(1));
  EXPECT_FALSE(exportDatabase(*database_, folder_ / "a.twdb", {.overwrite = true}));
  // A device or a pipe keeps its place whatever is asked.
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string name : {"pipe", "."}) {
    const auto kept = exportDatabase(*database_, folder_ / name, {.overwrite = true});
    ASSERT_FALSE(kept);
    EXPECT_THAT(kept.error().message, HasSubstr("not a regular file"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ / "pipe"));
  EXPECT_FALSE(exportDatabase(*database_, ""));
  EXPECT_EQ(exportDatabase(*database_, folder_ / "none/b.twdb").error().code, ErrorCode::kNotFound);
}

TEST_F(TransferTest, aReadOnlyDatabaseCanBeExported) {
  ASSERT_TRUE(database_->commitWinner(record(1), {}));
  database_.reset();
  ASSERT_TRUE(exportDatabase(*samples::open(folder_ / "a.twdb", DatabaseAccess::kRead), folder_ / "b.twdb"));
  EXPECT_THAT(samples::winnersOf(folder_ / "b.twdb"), SizeIs(1));
}

class MergeTest : public TransferTest {
 protected:
  MergeReport merge() {
    auto report = mergeDatabase(*database_, *other_);
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_THAT(database_->verify()->problems, IsEmpty());
    return report ? *report : MergeReport{};
  }

  std::unique_ptr<Database> other_ = samples::open(folder_ / "b.twdb");
};

TEST_F(MergeTest, addsWhatIsNewAndTwiceIsOnce) {
  ASSERT_TRUE(other_->commitWinner(record(1), std::vector{build("a")}, "policy"));
  ASSERT_TRUE(other_->addRecords(std::vector{record(2)}));
  ASSERT_TRUE(other_->addDefaultBuilds(std::vector{DefaultBuild{build("default"), ""}}));
  ASSERT_TRUE(other_->addDevice(*nominalDevice("sm_90a")));
  const MergeReport first = merge();
  EXPECT_EQ(first.recordsAdded, 2);
  EXPECT_EQ(first.winnersAdded, 1);
  EXPECT_EQ(first.buildsAdded, 2);
  EXPECT_EQ(first.defaultsAdded, 1);
  EXPECT_THAT(first.conflicts, IsEmpty());
  EXPECT_THAT(*database_->doneProblems(kDevice, "policy"), SizeIs(1));
  EXPECT_THAT(database_->devices()->front().second, HasSubstr("NVIDIA H200"));
  EXPECT_THAT(samples::winnersOf(folder_ / "a.twdb")[0].buildKeys, ElementsAre(build("a").binary.buildKey));

  const MergeReport second = merge();
  EXPECT_EQ(
      second.recordsAdded + second.winnersAdded + second.winnersReplaced + second.buildsAdded + second.defaultsAdded,
      0);
  EXPECT_THAT(second.conflicts, IsEmpty());
}

TEST_F(MergeTest, theBetterEvidencedWinnerStaysAndBothMeasurements) {
  struct Case {
    std::string_view reason;
    bool replaces;
    void (*change)(Record& mine, Record& theirs);
  };
  const std::array cases = {
      Case{"more samples (60 against 15)", true, [](Record&, Record& theirs) { theirs.samples = 60; }},
      Case{"more samples (60 against 15)", false, [](Record& mine, Record&) { mine.samples = 60; }},
      Case{"smaller spread", true, [](Record&, Record& theirs) { theirs.madMicroseconds = 0.125; }},
      Case{"newer", true, [](Record&, Record& theirs) { theirs.date = "2027-01-01T00:00:00Z"; }},
      Case{"among equals", false, [](Record&, Record& theirs) { theirs.configuration = R"({"tile_m": 64})"; }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Record mine = record(static_cast<std::int64_t>(i)), theirs = mine;
    theirs.defaultMicroseconds = 21;  // Another measurement in any case.
    cases[i].change(mine, theirs);
    ASSERT_TRUE(database_->commitWinner(mine, {}));
    ASSERT_TRUE(other_->commitWinner(theirs, {}));
  }
  const MergeReport report = merge();
  ASSERT_THAT(report.conflicts, SizeIs(cases.size()));
  EXPECT_EQ(report.winnersReplaced, 3);
  EXPECT_EQ(report.recordsAdded, static_cast<std::int64_t>(cases.size()));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const MergeConflict& conflict = report.conflicts[i];
    EXPECT_EQ(conflict.problem, problemText(static_cast<std::int64_t>(i)));
    EXPECT_THAT(conflict.reason, HasSubstr(std::string(cases[i].reason)));
    EXPECT_EQ(conflict.kept.defaultMicroseconds, cases[i].replaces ? 21 : 20) << i;
  }
}

TEST_F(MergeTest, aFileCannotBeMergedIntoItself) {
  const auto self = samples::open(folder_ / "a.twdb", DatabaseAccess::kRead);
  EXPECT_EQ(mergeDatabase(*database_, *self).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tilewright
