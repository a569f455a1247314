// The tuning database: what is stored comes back, keys find it, and each refusal names its rule.
#include "cache/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "cache/layers.h"
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

class DatabaseTest : public testing::Test {
 protected:
  std::vector<Record> records(const RecordFilter& filter = {}) {
    auto records = database_->records(filter, warnings_);
    EXPECT_TRUE(records) << records.error().message;
    return records ? *records : std::vector<Record>{};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "deep/er/user.twdb";
  std::unique_ptr<Database> database_ = samples::open(path_);
  std::vector<std::string> warnings_;
};

TEST_F(DatabaseTest, everyFieldOfARecordComesBack) {
  Record refused = record(7);
  refused.status = RecordStatus::kRefused;
  refused.reason = "no_spills: 12 bytes";
  refused.error = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(database_->addRecords(std::vector{record(1, 1.0 / 3), refused}));

  const auto stored = records();
  ASSERT_THAT(stored, SizeIs(2));  // Newest first.
  EXPECT_TRUE(std::isnan(stored[0].error));
  Record expected = refused;
  expected.id = stored[0].id, expected.error = 0;
  Record got = stored[0];
  got.error = 0;
  EXPECT_EQ(got, expected);
  expected = record(1, 1.0 / 3);
  expected.id = stored[1].id;
  EXPECT_EQ(stored[1], expected);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DatabaseTest, theSameMeasurementIsStoredOnce) {
  ASSERT_TRUE(database_->addRecords(std::vector{record(1), record(1), record(1, 12.75)}));
  ASSERT_TRUE(database_->addRecords(std::vector{record(1)}));
  EXPECT_THAT(records(), SizeIs(2));
}

TEST_F(DatabaseTest, filtersByProblemDeviceTemplateAndStatus) {
  Record elsewhere = record(1);
  elsewhere.device = "cpu|x|x86-64-v3|2|";
  Record wrong = record(2);
  wrong.status = RecordStatus::kWrong;
  Record other = record(1);
  other.templateId = "q4k_linear.plain_cuda";
  ASSERT_TRUE(database_->addRecords(std::vector{record(1), record(2, 9), wrong, elsewhere, other}));
  EXPECT_THAT(records({.problem = problemText(1)}), SizeIs(3));
  EXPECT_THAT(records({.device = kDevice}), SizeIs(4));
  EXPECT_THAT(records({.templateId = "q4k_linear.plain_cuda"}), SizeIs(1));
  EXPECT_THAT(records({.problem = problemText(2), .onlyOk = true}), SizeIs(1));
  EXPECT_THAT(records({.limit = 2}), SizeIs(2));
}

TEST_F(DatabaseTest, anInvalidRecordIsRefusedAndNothingOfItsBatchIsKept) {
  struct Case {
    std::string_view part;
    void (*change)(Record&);
  };
  for (const auto& [part, change] : {
           Case{"must not be empty", [](Record& r) { r.device.clear(); }},
           Case{"must not be empty", [](Record& r) { r.templateId.clear(); }},
           Case{"finite", [](Record& r) { r.medianMicroseconds = std::numeric_limits<double>::infinity(); }},
           Case{"not negative", [](Record& r) { r.madMicroseconds = -1; }},
           Case{"'{\"m\": ' is not JSON", [](Record& r) { r.problem = "{\"m\": "; }},
           Case{"is not JSON", [](Record& r) { r.configuration = ""; }},
       }) {
    Record broken = record(2);
    change(broken);
    const auto status = database_->addRecords(std::vector{record(1), broken});
    ASSERT_FALSE(status) << part;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(std::string(part)));
  }
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(DatabaseTest, aWinnerReplacesTheOneBeforeAndBothMeasurementsStay) {
  ASSERT_TRUE(database_->commitWinner(record(1, 14), std::vector{build("a")}, "policy 1"));
  ASSERT_TRUE(database_->commitWinner(record(1, 12), std::vector{build("b"), build("c")}, "policy 1"));
  const auto winners = samples::winnersOf(path_);
  ASSERT_THAT(winners, SizeIs(1));
  EXPECT_EQ(winners[0].record.medianMicroseconds, 12);
  EXPECT_THAT(winners[0].buildKeys, ElementsAre(build("b").binary.buildKey, build("c").binary.buildKey));
  EXPECT_THAT(records(), SizeIs(2));
}

TEST_F(DatabaseTest, onlyAnOkRecordMayWin) {
  Record wrong = record(1);
  wrong.status = RecordStatus::kWrong;
  const auto status = database_->commitWinner(wrong, {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("its record is wrong, must be ok"));
}

TEST_F(DatabaseTest, winnersAreOfTheirDevice) {
  Record slice = record(1);
  slice.device = "cuda|NVIDIA H200|sm_90a|16|1g.18gb";
  ASSERT_TRUE(database_->commitWinner(record(1), {}));
  ASSERT_TRUE(database_->commitWinner(slice, {}));
  EXPECT_THAT(samples::winnersOf(path_), SizeIs(1));
  EXPECT_THAT(samples::winnersOf(path_, ""), SizeIs(2));
  EXPECT_THAT(samples::winnersOf(path_, "cuda|NVIDIA H100|sm_90a|132|"), IsEmpty());
}

TEST_F(DatabaseTest, aBuildIsFoundByEitherKeyWithItsBytesAndResources) {
  ASSERT_TRUE(database_->addBuilds(std::vector{build("a"), build("b")}));
  for (const auto& found :
       {database_->findByRequest(build("a").requestKey), database_->findByBuild(build("a").binary.buildKey)}) {
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->bytes, build("a").binary.bytes);
    EXPECT_EQ(found->target, "sm_90a");
    EXPECT_EQ(found->compiler, "nvrtc 13.0.48");
    EXPECT_THAT(found->warnings, ElementsAre("ptxas: first", "ptxas: second"));
    ASSERT_THAT(found->kernels, SizeIs(2));
    EXPECT_EQ(found->kernels[0].entry, "mainKernel");
    EXPECT_EQ(found->kernels[0].registers, 168);
    EXPECT_EQ(found->kernels[1].spillBytes, 8);
    EXPECT_EQ(found->kernels[1].stackBytes, 16);
    EXPECT_EQ(found->kernels[0].sharedBytes, 1024);
  }
  EXPECT_EQ(database_->findByRequest("nothing").error().code, ErrorCode::kNotFound);
}

TEST_F(DatabaseTest, theNewestBuildOfARequestIsFound) {
  StoredBuild older = build("old"), newer = build("new");
  newer.requestKey = older.requestKey;
  newer.date = "2027-01-01T00:00:00Z";
  ASSERT_TRUE(database_->addBuilds(std::vector{newer, older}));
  EXPECT_EQ(database_->findByRequest(older.requestKey)->buildKey, newer.binary.buildKey);
}

TEST_F(DatabaseTest, bytesThatDoNotMatchTheirHashAreNotStored) {
  StoredBuild broken = build("a");
  broken.binary.bytes[7] ^= std::byte{1};
  const auto status = database_->addBuilds(std::vector{broken});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("do not match hash"));
}

TEST_F(DatabaseTest, equalBytesAreStoredOnce) {
  StoredBuild twin = build("a");
  twin.binary.buildKey = "another", twin.requestKey = "another";
  ASSERT_TRUE(database_->addBuilds(std::vector{build("a"), twin}));
  const auto summary = database_->summary();
  EXPECT_EQ(summary->builds, 2);
  EXPECT_EQ(summary->blobs, 1);
}

TEST_F(DatabaseTest, defaultBuildsAreFoundByTemplateTargetAndClass) {
  ASSERT_TRUE(database_->addDefaultBuilds(
      std::vector{DefaultBuild{build("64"), "head_dim=64"}, DefaultBuild{build("128"), "head_dim=128"}}));
  const auto found = database_->findDefault("q4k_linear.fused_sm90", "sm_90a", "head_dim=128");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->hash, build("128").binary.hash);
  EXPECT_EQ(database_->findDefault("q4k_linear.fused_sm90", "sm_80", "head_dim=128").error().code,
            ErrorCode::kNotFound);
  const auto listed = database_->builds();
  ASSERT_THAT(*listed, SizeIs(2));
  EXPECT_TRUE(listed->front().isDefault);
  EXPECT_FALSE(listed->front().isWinners);
  EXPECT_THAT(listed->front().entries, ElementsAre("mainKernel", "fixUp"));
}

TEST_F(DatabaseTest, whatIsDoneIsRememberedByPolicy) {
  ASSERT_TRUE(database_->commitWinner(record(1), {}, "policy 1"));
  ASSERT_TRUE(database_->commitWinner(record(2), {}));
  ASSERT_TRUE(database_->markDone(std::vector{DoneProblem{problemText(3), kDevice, "policy 1", {}}}));
  EXPECT_THAT(*database_->doneProblems(kDevice, "policy 1"), ElementsAre(problemText(1), problemText(3)));
  EXPECT_THAT(*database_->doneProblems(kDevice, "policy 2"), IsEmpty());
}

TEST_F(DatabaseTest, aDeviceKeepsItsDetails) {
  const DeviceInfo device = *nominalDevice("sm_90a");
  ASSERT_TRUE(database_->addDevice(device));
  const auto devices = database_->devices();
  ASSERT_THAT(*devices, SizeIs(1));
  EXPECT_EQ(devices->front().first, deviceKey(device));
  EXPECT_THAT(devices->front().second, HasSubstr(R"("name":"NVIDIA H200","target":"sm_90a")"));
}

TEST_F(DatabaseTest, aReaderSeesWhatAWriterCommitsBesideIt) {
  const auto reader = samples::open(path_, DatabaseAccess::kRead);
  ASSERT_TRUE(database_->commitWinner(record(1), {}));
  EXPECT_THAT(*reader->winners(kDevice, warnings_), SizeIs(1));
  const auto status = reader->commitWinner(record(2), {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("was opened for reading"));
}

TEST_F(DatabaseTest, threadsTakeTurnsOnOneObject) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 10; ++i) {
        const int m = thread * 100 + i;
        if (!database_->commitWinner(record(m), std::vector{build(std::to_string(m))}, "p")) ++failures;
        if (!database_->findByRequest(build(std::to_string(m)).requestKey)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_THAT(samples::winnersOf(path_), SizeIs(40));
  EXPECT_THAT(database_->verify()->problems, IsEmpty());
}

TEST(DatabaseLayers, anUpperLayerHidesNothingOfTheLower) {
  const TemporaryFolder folder;
  ASSERT_TRUE(samples::open(folder / "system.twdb")->commitWinner(record(1, 10), std::vector{build("s")}));
  ASSERT_TRUE(samples::open(folder / "user.twdb")->commitWinner(record(1, 11), std::vector{build("u")}));
  const DatabaseLayers layers(
      {samples::open(folder / "user.twdb"), samples::open(folder / "system.twdb", DatabaseAccess::kRead)});
  std::vector<std::string> warnings;
  const auto winners = layers.winners(kDevice, warnings);
  ASSERT_THAT(winners, SizeIs(2));
  EXPECT_EQ(winners[0].layer, 0u);
  EXPECT_EQ(winners[0].winner.record.medianMicroseconds, 11);
  EXPECT_EQ(layers.findByRequest(build("s").requestKey, warnings)->layer, 1u);
  EXPECT_EQ(layers.findByRequest("none", warnings).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(warnings, IsEmpty());
}

}  // namespace
}  // namespace tilewright
