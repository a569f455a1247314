// Honest look-up: what may run for a problem, given what was measured. Each case is a small world of winners.
#include "runtime/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cache/samples.h"
#include "tests/runtime/fakes.h"

namespace tilewright {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Problem linear(std::int64_t m, Precision precision = Precision::kExact, Alignment alignment = Alignment::k16) {
  return {.operation = Operation::kQ4kLinear,
          .alignment = alignment,
          .linear = {.n = 4096, .k = 4096, .m = m, .precision = precision}};
}

Problem attention(std::int64_t qLen, std::int64_t kvLen) {
  return {.operation = Operation::kAttention,
          .attention = {.qHeads = 16, .kvHeads = 2, .headDim = 128, .qLen = qLen, .kvLen = kvLen, .causal = true}};
}

class DispatcherTest : public testing::Test {
 protected:
  struct Win {
    Problem problem;
    std::int64_t tile;
    double median = 10;
    double standard = 20;  // The default's.
    std::string_view templateId = "";
  };

  /// Stores winners into layer 0 (the top) or 1.
  void store(const std::vector<Win>& wins, int layer = 0) {
    const auto database = samples::open(paths_[layer]);
    for (const Win& win : wins) {
      Record record = samples::record(1, win.median);
      record.problem = toJson(win.problem);
      record.device = deviceKey(fakes::deviceInfo());
      record.templateId = !win.templateId.empty()  ? win.templateId
                          : win.problem.isLinear() ? "q4k_linear.tma"
                                                   : "attention.tma";
      record.configuration = Configuration({{"tile", win.tile}}).json();
      record.defaultMicroseconds = win.standard;
      ASSERT_TRUE(database->commitWinner(record, {}));
    }
  }

  const Dispatcher& dispatcher() {
    std::vector<std::shared_ptr<const Database>> databases;
    for (const auto& path : paths_) databases.push_back(samples::open(path));
    dispatcher_.emplace(fakes::deviceInfo(), DatabaseLayers(databases), templates_.all);
    return *dispatcher_;
  }

  /// "exact q4k_linear.tma tile=128", the best candidate, after a fresh look at the databases.
  std::string best(const Problem& problem) {
    selection_ = dispatcher().select(problem);
    if (selection_.candidates.empty()) return "none";
    const Candidate& candidate = selection_.candidates.front();
    return fmt::format("{} {} {}", provenanceName(candidate.provenance), candidate.kernelTemplate->id(),
                       candidate.configuration.text());
  }

  samples::TemporaryFolder folder_;
  std::array<std::filesystem::path, 2> paths_ = {folder_ / "user.twdb", folder_ / "system.twdb"};
  fakes::Templates templates_;
  std::optional<Dispatcher> dispatcher_;
  Selection selection_;
};

TEST_F(DispatcherTest, exactMatchWins) {
  store({{linear(512), 128}});
  EXPECT_EQ(best(linear(512)), "exact q4k_linear.tma tile=128");
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("10.00 us measured, the default 20.00 us"));
  EXPECT_EQ(selection_.candidates.front().layer, 0);
  EXPECT_EQ(dispatcher_->find(linear(512))->configuration["tile"], 128);
  EXPECT_EQ(dispatcher_->find(linear(513)), nullptr);
}

TEST_F(DispatcherTest, nothingMeasuredIsTheCheapestDefault) {
  EXPECT_EQ(best(linear(512)), "default q4k_linear.tma tile=64");
  ASSERT_THAT(selection_.candidates, SizeIs(2));
  EXPECT_EQ(selection_.candidates[1].kernelTemplate->id(), "q4k_linear.plain");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("not measured on this device")));
}

TEST_F(DispatcherTest, aProblemBeyondTheMemoryHasNoPredictedTime) {
  best(linear(512));
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("not measured; predicted to take "));
  best(linear(std::int64_t{1} << 39));
  EXPECT_THAT(selection_.candidates.front().reason,
              testing::AllOf(HasSubstr("not measured; its operands need "), HasSubstr("the device has 64 GiB")));
}

TEST_F(DispatcherTest, betweenAgreeingNeighboursIsNearest) {
  store({{linear(256), 128}, {linear(1024), 128, 30, 40}});
  EXPECT_EQ(best(linear(500)), "nearest q4k_linear.tma tile=128");
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("neighbours m=256 and m=1024"));
  EXPECT_EQ(selection_.candidates.front().margin.medianMicroseconds, 30);  // The slower neighbour's.
}

TEST_F(DispatcherTest, beyondTheMeasuredRangeIsTheDefault) {
  store({{linear(256), 128}, {linear(1024), 128}});
  EXPECT_EQ(best(linear(2048)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("m=2048 lies above all measured problems")));
  EXPECT_EQ(best(linear(1)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("lies below")));
}

TEST_F(DispatcherTest, disagreeingNeighboursAreTheDefault) {
  store({{linear(256), 128}, {linear(1024), 256}});
  EXPECT_EQ(best(linear(500)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("m=256 and m=1024 have different winners")));
}

TEST_F(DispatcherTest, onlyTheClosestNeighboursCount) {
  store({{linear(128), 256}, {linear(256), 128}, {linear(1024), 128}, {linear(2048), 256}});
  EXPECT_EQ(best(linear(500)), "nearest q4k_linear.tma tile=128");
}

TEST_F(DispatcherTest, aNeighbourThatDoesNotBeatTheDefaultIsNoEvidence) {
  store({{linear(256), 128}, {linear(1024), 128, 20, 20}});
  EXPECT_EQ(best(linear(500)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("at the neighbour m=1024 the winner does not beat the default")));
}

TEST_F(DispatcherTest, aNeighbourWithoutAMeasuredDefaultIsNoEvidence) {
  store({{linear(256), 128}, {linear(1024), 128, 10, 0}});
  EXPECT_EQ(best(linear(500)), "default q4k_linear.tma tile=64");
}

TEST_F(DispatcherTest, neighboursOfOtherFixedDimensionsDoNotCount) {
  Problem wider = linear(1024);
  wider.linear.n = 8192;
  Problem biased = linear(1024);
  biased.linear.bias = true;
  store({{linear(256), 128}, {wider, 128}, {biased, 128}});
  EXPECT_EQ(best(linear(500)), "default q4k_linear.tma tile=64");
}

TEST_F(DispatcherTest, aNearestThatIsRefusedHereIsTheDefault) {
  store({{linear(512), 256}, {linear(1024), 256}});
  EXPECT_EQ(best(linear(700)), "nearest q4k_linear.tma tile=256");
  EXPECT_EQ(best(linear(777)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("is refused here")));
}

TEST_F(DispatcherTest, attentionInterpolatesInBothLengths) {
  store({{attention(512, 4096), 128},
         {attention(512, 16384), 128},
         {attention(2048, 4096), 128},
         {attention(2048, 16384), 128}});
  EXPECT_EQ(best(attention(512, 8192)), "nearest attention.tma tile=128");
  EXPECT_EQ(best(attention(1024, 4096)), "nearest attention.tma tile=128");
  EXPECT_EQ(best(attention(1000, 10000)), "nearest attention.tma tile=128");
  EXPECT_EQ(best(attention(1000, 20000)), "default attention.tma tile=64");
}

TEST_F(DispatcherTest, attentionNeighboursThatDisagreeAreTheDefault) {
  // Two problems lie closest below (1024, 8192): neither is below the other.
  store({{attention(512, 8000), 128}, {attention(1000, 4096), 256}, {attention(2048, 16384), 128}});
  EXPECT_EQ(best(attention(1024, 8192)), "default attention.tma tile=64");
  EXPECT_THAT(selection_.notes, Contains(HasSubstr("have different winners")));
}

TEST_F(DispatcherTest, anUpperLayerWinsAmongEqualsAndAnExactMatchOverAnyLayer) {
  store({{linear(512), 128}}, 0);
  store({{linear(512), 256}, {linear(700), 256}, {linear(2048), 128}}, 1);
  EXPECT_EQ(best(linear(512)), "exact q4k_linear.tma tile=128");
  EXPECT_EQ(best(linear(700)), "exact q4k_linear.tma tile=256");  // The user's layer could only offer a neighbour.
  EXPECT_EQ(selection_.candidates.front().layer, 1);
}

TEST_F(DispatcherTest, aRefusedWinnerOfTheUpperLayerYieldsToTheLower) {
  store({{linear(512), 1024}}, 0);
  store({{linear(512), 256}}, 1);
  EXPECT_EQ(best(linear(512)), "exact q4k_linear.tma tile=256");
  EXPECT_THAT(dispatcher_->warnings(), Contains(HasSubstr("tile is 1024, must be at most 512")));
  ASSERT_THAT(selection_.refused, SizeIs(1));
  EXPECT_EQ(selection_.refused[0].refusal.constraint, "tile");
  EXPECT_EQ(selection_.refused[0].layer, 0);
}

TEST_F(DispatcherTest, aWinnerOfAnUnknownTemplateIsPassedOver) {
  store({{linear(512), 128, 10, 20, "q4k_linear.of_tomorrow"}});
  EXPECT_EQ(best(linear(512)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(dispatcher_->warnings(), Contains(HasSubstr("no template q4k_linear.of_tomorrow")));
}

TEST_F(DispatcherTest, aWinnerSlowerThanTheDefaultIsPassedOver) {
  store({{linear(512), 128, 25, 20}});
  EXPECT_EQ(best(linear(512)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(dispatcher_->warnings(), Contains(HasSubstr("it took 25.00 us, the default 20.00 us")));
}

TEST_F(DispatcherTest, aWinnerWithForeignParametersIsPassedOver) {
  const auto database = samples::open(paths_[0]);
  for (const auto& [m, configuration] : {std::pair{1, R"({"block": 3})"}, {2, R"({"tile": "x"})"}, {3, "[1]"}}) {
    Record record = samples::record(1);
    record.problem = toJson(linear(m));
    record.device = deviceKey(fakes::deviceInfo());
    record.templateId = "q4k_linear.tma";
    record.configuration = configuration;
    ASSERT_TRUE(database->commitWinner(record, {}));
  }
  Record strange = samples::record(1);
  strange.problem = R"({"op": "convolution"})";
  strange.device = deviceKey(fakes::deviceInfo());
  ASSERT_TRUE(database->commitWinner(strange, {}));
  EXPECT_EQ(best(linear(1)), "default q4k_linear.tma tile=64");
  EXPECT_EQ(best(linear(2)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(dispatcher_->warnings(), SizeIs(4));
  EXPECT_EQ(dispatcher_->winnerCount(), 0u);
}

TEST_F(DispatcherTest, winnersOfAnotherDeviceDoNotCount) {
  const auto database = samples::open(paths_[0]);
  Record record = samples::record(1);
  record.problem = toJson(linear(512));
  record.templateId = "q4k_linear.tma", record.configuration = R"({"tile": 128})";
  record.device = deviceKey(fakes::deviceInfo()) + "1g.18gb";
  ASSERT_TRUE(database->commitWinner(record, {}));
  EXPECT_EQ(best(linear(512)), "default q4k_linear.tma tile=64");
}

TEST_F(DispatcherTest, winnersOfAnotherDriverOrPowerLimitCountAndAreReported) {
  store({{linear(512), 128}});
  const auto database = samples::open(paths_[0]);
  Record record = samples::record(1);
  record.problem = toJson(linear(600)), record.device = deviceKey(fakes::deviceInfo());
  record.templateId = "q4k_linear.tma", record.configuration = R"({"tile": 128})";
  record.powerLimitWatts = 500;
  ASSERT_TRUE(database->commitWinner(record, {}));
  EXPECT_EQ(best(linear(600)), "exact q4k_linear.tma tile=128");
  EXPECT_THAT(
      dispatcher_->warnings(),
      testing::ElementsAre(HasSubstr("1 of 2 winners were measured with driver 13000 and a power limit of 500 W")));
}

TEST_F(DispatcherTest, aMoreExactWinnerServesALooserProblemWhenItIsFaster) {
  // The fake default of fp8 is predicted to take 20 us.
  store({{linear(512), 128, 15, 40}});
  EXPECT_EQ(best(linear(512, Precision::kFp8)), "exact q4k_linear.tma tile=128");
  EXPECT_EQ(selection_.candidates.front().problem.linear.precision, Precision::kExact);
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("with precision exact"));
  store({{linear(512), 128, 25, 40}});
  EXPECT_EQ(best(linear(512, Precision::kFp8)), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes,
              Contains(HasSubstr("the winner for precision exact takes 25.00 us, the default 20.00 us")));
}

TEST_F(DispatcherTest, aDefaultMeasuredInAnotherSweepCountsInsteadOfItsPrediction) {
  // The fake computes `fast` in fp8: its default was raced, and took 30 us, in the sweep of fp8; predicted were 20.
  store({{linear(512, Precision::kFp8), 128, 25, 30}});
  EXPECT_EQ(best(linear(512, Precision::kFast)), "exact q4k_linear.tma tile=128");
  EXPECT_EQ(selection_.candidates.front().problem.linear.precision, Precision::kFp8);
}

TEST_F(DispatcherTest, fastTakesTheFastestPrecisionMeasured) {
  store({{linear(512, Precision::kFp8), 128, 12}, {linear(512, Precision::kInt8), 256, 11}, {linear(512), 256, 18}});
  EXPECT_EQ(best(linear(512, Precision::kFast)), "exact q4k_linear.tma tile=256");
  EXPECT_EQ(selection_.candidates.front().problem.linear.precision, Precision::kInt8);
}

TEST_F(DispatcherTest, aLooserWinnerNeverServesAMoreExactProblem) {
  store({{linear(512, Precision::kFp8), 128, 1},
         {linear(512, Precision::kInt8), 128, 1},
         {linear(512, Precision::kFast), 128, 1}});
  EXPECT_EQ(best(linear(512)), "default q4k_linear.tma tile=64");
  EXPECT_EQ(best(linear(512, Precision::kFp8)), "exact q4k_linear.tma tile=128");
  store({{linear(600, Precision::kInt8), 128, 1}});
  EXPECT_EQ(best(linear(600, Precision::kFp8)), "default q4k_linear.tma tile=64");
}

TEST_F(DispatcherTest, aWinnerForAnyAlignmentServesAlignedOperandsNotTheReverse) {
  store({{linear(512, Precision::kExact, Alignment::kAny), 128, 15, 90, "q4k_linear.plain"}});
  EXPECT_EQ(best(linear(512)), "exact q4k_linear.plain tile=128");
  EXPECT_EQ(selection_.candidates.front().problem.alignment, Alignment::kAny);
  store({{linear(600), 128}});
  EXPECT_EQ(best(linear(600, Precision::kExact, Alignment::kAny)), "default q4k_linear.plain tile=64");
  ASSERT_THAT(selection_.refused, SizeIs(1));
  EXPECT_EQ(selection_.refused[0].refusal.constraint, "alignment");
}

Problem onPreparedWeights(Problem problem) {
  problem.linear.prepared = true;
  return problem;
}

TEST_F(DispatcherTest, preparedProblemsHaveTheirOwnWinnersAndNeighbours) {
  store({{linear(512), 256}, {onPreparedWeights(linear(512)), 128}});
  EXPECT_EQ(best(linear(512)), "exact q4k_linear.tma tile=256");
  EXPECT_EQ(best(onPreparedWeights(linear(512))), "exact q4k_linear.tma tile=128");
  EXPECT_THAT(selection_.candidates.front().reason, testing::StartsWith("measured for this problem"));
  store({{onPreparedWeights(linear(1024)), 128}});
  EXPECT_EQ(best(onPreparedWeights(linear(700))), "nearest q4k_linear.tma tile=128");
}

TEST_F(DispatcherTest, anUnpreparedWinnerServesAPreparedProblemNotTheReverse) {
  store({{linear(512), 256}, {onPreparedWeights(linear(600)), 128}});
  EXPECT_EQ(best(onPreparedWeights(linear(512))), "exact q4k_linear.tma tile=256");
  EXPECT_FALSE(selection_.candidates.front().problem.linear.prepared);
  EXPECT_EQ(selection_.candidates.front().reason,
            "with weights prepared in the call: measured for this problem: 10.00 us measured, the default 20.00 us");
  EXPECT_TRUE(selection_.candidates[1].problem.linear.prepared);  // The default of the problem as it was asked.
  EXPECT_EQ(best(linear(600)), "default q4k_linear.tma tile=64");
}

TEST_F(DispatcherTest, anUnpreparedWinnerMustBeatTheDefaultAndComesAfterPreparedOnes) {
  // Nobody raced the default here: it is predicted to take 40 us.
  store({{linear(512), 256, 45, 0}});
  EXPECT_EQ(best(onPreparedWeights(linear(512))), "default q4k_linear.tma tile=64");
  EXPECT_THAT(selection_.notes,
              Contains(HasSubstr("the winner for weights prepared in the call takes 45.00 us, the default 40.00 us")));
  // Raced in the same sweep, it counts as it was measured.
  store({{linear(600), 256, 45, 50}});
  EXPECT_EQ(best(onPreparedWeights(linear(600))), "exact q4k_linear.tma tile=256");
  // A slower winner, but measured on prepared weights.
  store({{linear(700, Precision::kFp8), 256, 9, 20}, {onPreparedWeights(linear(700)), 128, 15, 20}});
  EXPECT_EQ(best(onPreparedWeights(linear(700, Precision::kFp8))), "exact q4k_linear.tma tile=128");
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("with precision exact: "));
}

TEST_F(DispatcherTest, unpreparedNeighboursServeAPreparedProblem) {
  store({{linear(256), 128}, {linear(1024), 128, 30, 40}});
  EXPECT_EQ(best(onPreparedWeights(linear(500))), "nearest q4k_linear.tma tile=128");
  EXPECT_THAT(selection_.candidates.front().reason, HasSubstr("with weights prepared in the call: wins and beats"));
}

TEST_F(DispatcherTest, aProblemThatEveryTemplateRefusesHasNoCandidate) {
  Problem problem = linear(1);
  problem.linear.n = 2000000;
  EXPECT_EQ(best(problem), "none");
  EXPECT_EQ(selection_.provenance(), Provenance::kNone);
  EXPECT_THAT(selection_.refused, SizeIs(2));
}

TEST_F(DispatcherTest, whatWonElsewhereIsTheLastResort) {
  store({{linear(256), 128}, {linear(1024), 256}});
  best(linear(500));
  ASSERT_THAT(selection_.candidates, SizeIs(4));
  EXPECT_EQ(selection_.candidates[2].configuration["tile"], 128);
  EXPECT_THAT(selection_.candidates[2].reason, HasSubstr("won at m=256"));
  // Whether weights are prepared makes no other binary; the asked kind comes first among equals.
  store({{onPreparedWeights(linear(256)), 512}});
  best(linear(500));
  ASSERT_THAT(selection_.candidates, SizeIs(5));
  EXPECT_EQ(selection_.candidates[2].configuration["tile"], 128);
  EXPECT_EQ(selection_.candidates[3].configuration["tile"], 512);
  EXPECT_THAT(selection_.candidates[3].reason, HasSubstr("won at m=256 on prepared weights"));
  EXPECT_FALSE(selection_.candidates[3].problem.linear.prepared);
  EXPECT_THAT(dispatcher_->warnings(), IsEmpty());
}

}  // namespace
}  // namespace tilewright
