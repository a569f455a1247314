// What a sweep's listing says of a winner.
#include "tools/tune_report.h"

#include <gtest/gtest.h>

#include "format/json_parse.h"

namespace tilewright {
namespace {

TEST(TuneReport, listsWhatAWinnerKeepsOfPreparedWeights) {
  autotune::SweepReport report;
  for (const bool prepared : {true, false}) {
    autotune::ProblemOutcome outcome{
        .listed = {.problem = {.operation = Operation::kQ4kLinear,
                               .linear = {.n = 8, .k = 256, .m = 1, .prepared = prepared}}},
        .status = autotune::ProblemStatus::kTuned,
        .winner = autotune::WinnerReport{.templateId = "q4k_linear.any"}};
    if (prepared) outcome.winner->preparation = {.bytes = std::int64_t{1} << 40, .microseconds = 2.5};
    report.outcomes.push_back(std::move(outcome));
  }
  const auto listing = parseJson(sweepListing(report));
  ASSERT_TRUE(listing) << listing.error().message;
  const JsonValue::Array& outcomes = *listing->find("outcomes")->asArray();
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(*outcomes[0].find("prepared_bytes")->asInteger(), std::int64_t{1} << 40);
  EXPECT_EQ(*outcomes[0].find("preparation_us")->asReal(), 2.5);
  EXPECT_EQ(outcomes[1].find("prepared_bytes"), nullptr);
  EXPECT_EQ(outcomes[1].find("preparation_us"), nullptr);
}

}  // namespace
}  // namespace tilewright
