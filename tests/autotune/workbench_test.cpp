// Plans on a workbench with a fake device: when weights are prepared, into what, and what of it is timed.
#include "autotune/workbench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/autotune/fake_device.h"

namespace tilewright::autotune {
namespace {

using testing::ElementsAre;

Problem problemOf(bool prepared) {
  return {.operation = Operation::kQ4kLinear, .linear = {.n = 8, .k = 256, .m = 3, .prepared = prepared}};
}

Configuration configurationOf(std::int64_t stages) {
  return Configuration({{"tile", 2}, {"stages", stages}});
}

class WorkbenchTest : public testing::Test {
 protected:
  void open(bool prepared) { ASSERT_TRUE(workbench_.open(problemOf(prepared), {})); }

  /// Plan `stages` is the one with so many stages.
  Verification prepare(std::int64_t stages) {
    const PlanBinary binary{std::make_shared<Binary>(), {"run"}};
    auto verified = workbench_.prepare(static_cast<int>(stages), template_, configurationOf(stages), {{binary}});
    EXPECT_TRUE(verified) << verified.error().message;
    return verified.value_or(Verification{.ok = false});
  }

  FakeTemplate template_{"q4k_linear.fake", 1, Operation::kQ4kLinear};
  FakeDevice device_{DeviceInfo{.name = "fake", .target = "x86-64", .memoryBytes = 1 << 30}};
  Workbench workbench_{device_};
};

TEST_F(WorkbenchTest, callsOfAProblemWithoutPreparedWeightsPrepareWhatTheyNeed) {
  open(false);
  const Verification verified = prepare(1);
  EXPECT_TRUE(verified.ok) << verified.what;
  EXPECT_EQ(verified.preparation, std::nullopt);
  ASSERT_TRUE(workbench_.measure(1, {.repeats = 1}));
  EXPECT_THAT(device_.takeLog(), ElementsAre("run 2.1", "measure", "run 2.1", "measured"));
}

TEST_F(WorkbenchTest, preparedWeightsAreMadeBeforeEveryCheckAndMeasurementAndAreNotTimed) {
  open(true);
  const Verification verified = prepare(1);
  EXPECT_TRUE(verified.ok) << verified.what;
  ASSERT_TRUE(verified.preparation);
  EXPECT_EQ(verified.preparation->bytes, template_.preparedBytes(problemOf(true), device_.info(), configurationOf(1)));
  EXPECT_GT(verified.preparation->microseconds, 0);
  EXPECT_THAT(device_.takeLog(), ElementsAre("prepare 2.1", "run 2.1 prepared"));
  ASSERT_TRUE(workbench_.measure(1, {.repeats = 1}));
  EXPECT_THAT(device_.takeLog(), ElementsAre("prepare 2.1", "measure", "run 2.1 prepared", "measured"));
}

TEST_F(WorkbenchTest, plansThatShareTheBufferFindTheirOwnWeightsInIt) {
  open(true);
  EXPECT_TRUE(prepare(1).ok);
  EXPECT_TRUE(prepare(2).ok) << "needs more bytes than the first one";
  const Result<Verification> again = workbench_.verify(1);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->ok) << again->what;
}

TEST_F(WorkbenchTest, whatAPreparationLeavesOutIsFound) {
  open(true);
  EXPECT_TRUE(prepare(1).ok);
  device_.forgetsLastWeight = true;
  const Result<Verification> verified = workbench_.verify(1);
  ASSERT_TRUE(verified);
  EXPECT_FALSE(verified->ok) << "the weights of the check before were still there";
}

class PlainTemplate : public FakeTemplate {
 public:
  using FakeTemplate::FakeTemplate;
  std::int64_t preparedBytes(const Problem&, const DeviceInfo&, const Configuration&) const override { return 0; }
};

TEST_F(WorkbenchTest, aPlanWithoutPreparationTakesAPreparedProblemAsItIs) {
  const PlainTemplate plain("q4k_linear.plain", 1, Operation::kQ4kLinear);
  open(true);
  const PlanBinary binary{std::make_shared<Binary>(), {"run"}};
  const auto verified = workbench_.prepare(1, plain, configurationOf(1), {{binary}});
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->ok) << verified->what;
  EXPECT_EQ(verified->preparation, std::nullopt);
  EXPECT_THAT(device_.takeLog(), ElementsAre("run 2.1"));
}

}  // namespace
}  // namespace tilewright::autotune
