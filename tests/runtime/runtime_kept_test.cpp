// What a caller keeps between launches: prepared weights and quantized activations, which plans share them, and what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "tests/runtime/runtime_fixture.h"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using RuntimeKeptTest = RuntimeTest;

TEST_F(RuntimeKeptTest, weightsArePreparedIntoABufferOfTheRightSize) {
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->preparedBytes(), 512);
  EXPECT_TRUE(runtime_->prepareWeights(*plan, linearOperands(), at(0x20000), 512, nullptr));
  EXPECT_THAT(log_->launches, ElementsAre("q4k_linear.tma tile=64 exact(7)"));
  EXPECT_FALSE(runtime_->prepareWeights(*plan, linearOperands(), at(0x20000), 511, nullptr));
  EXPECT_FALSE(runtime_->prepareWeights(*plan, {}, at(0x20000), 512, nullptr));
  const Plan* unprepared = *runtime_->bind(linear(7, Alignment::kAny));
  EXPECT_THAT(runtime_->prepareWeights(*unprepared, linearOperands(), at(0x20000), 512, nullptr).error().message,
              HasSubstr("has no preparation"));
}

TEST_F(RuntimeKeptTest, preparedProblemsAreRunOnPreparedWeightsAlone) {
  open();
  Problem problem = linear(7);
  problem.linear.prepared = true;
  const Plan* plan = *runtime_->bind(problem);
  EXPECT_NE(plan, *runtime_->bind(linear(7)));
  LaunchBuffers buffers{at(0x10000), plan->workspaceBytes()};
  const auto refused = [&](const Operands& operands) {
    const auto status = runtime_->launch(*plan, operands, buffers, nullptr);
    if (status) return std::string();
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    return status.error().message;
  };
  EXPECT_THAT(refused(linearOperands()), HasSubstr("prepared is null, must be the weights that were prepared for "
                                                   "q4k_linear.tma {tile=64}"));
  buffers.prepared = at(0x20010);
  EXPECT_THAT(refused(linearOperands()), HasSubstr("prepared is 0x20010, must be a multiple of 256 bytes"));
  EXPECT_THAT(log_->launches, IsEmpty());
  buffers.prepared = at(0x20000);
  EXPECT_EQ(refused(linearOperands()), "");
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(true, at(0x20000)));

  // The path for misaligned operands prepares in the call what it needs, and the workspace has room for it.
  const std::int64_t own = templates_.plain.workspaceBytes(problem, fakes::deviceInfo(), {});
  const std::int64_t alone = templates_.plain.workspaceBytes(linear(7), fakes::deviceInfo(), {});
  EXPECT_LT(own, alone);
  EXPECT_EQ(plan->workspaceBytes(), alone);
  Operands misaligned = linearOperands();
  misaligned.linear.x = at(0x1002);
  EXPECT_EQ(refused(misaligned), "");
  EXPECT_THAT(templates_.plain.lastCall(), FieldsAre(false, nullptr));
  EXPECT_THAT(log_->launches, SizeIs(2));
}

TEST_F(RuntimeKeptTest, problemsThatPromiseNothingTakePreparedWeightsOrNone) {
  open();
  ASSERT_TRUE(launch(linear(7), linearOperands()));
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(false, nullptr));
  const Plan* plan = *runtime_->bind(linear(7));
  ASSERT_TRUE(runtime_->launch(*plan, linearOperands(), {at(0x10000), plan->workspaceBytes(), at(0x20000)}, nullptr));
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(false, at(0x20000)));
}

TEST_F(RuntimeKeptTest, preparedWeightsServePlansWhoseFormatBeginsTheirs) {
  open();
  for (const bool promised : {false, true}) {
    const auto bind = [&](std::int64_t m, Precision precision) {
      Problem problem = linear(m);
      problem.linear.precision = precision, problem.linear.prepared = promised;
      return *runtime_->bind(problem);
    };
    const Plan *longest = bind(7, Precision::kInt8), *same = bind(9, Precision::kInt8), *first = bind(9, {});
    EXPECT_EQ(longest->preparedFormat(), "fake+s8");
    EXPECT_EQ(first->preparedFormat(), "fake");
    LaunchBuffers buffers{.workspace = at(0x10000), .workspaceBytes = 1024, .prepared = at(0x20000)};
    buffers.preparedBy = longest;
    for (const Plan* plan : {longest, same, first}) {
      ASSERT_TRUE(runtime_->launch(*plan, linearOperands(), buffers, nullptr));
      EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(promised, at(0x20000)));
    }
    // Without its plan it is the launched one's own.
    buffers.preparedBy = nullptr;
    EXPECT_TRUE(runtime_->launch(*same, linearOperands(), buffers, nullptr));
    // A plan that has no use for prepared weights does not look at them.
    Problem any = linear(9, Alignment::kAny);
    any.linear.prepared = promised;
    const Plan* without = *runtime_->bind(any);
    EXPECT_EQ(without->preparedFormat(), "");
    buffers.prepared = at(0x20010), buffers.preparedBy = longest;
    EXPECT_TRUE(runtime_->launch(*without, linearOperands(), buffers, nullptr));
  }
}

TEST_F(RuntimeKeptTest, preparedWeightsThatDoNotFitAreRefusedByName) {
  open();
  const auto bind = [&](std::int64_t n, std::int64_t k, Precision precision) {
    Problem problem = linear(7);
    problem.linear.n = n, problem.linear.k = k, problem.linear.precision = precision;
    return *runtime_->bind(problem);
  };
  const Plan* plan = bind(kN, kK, Precision::kInt8);
  const auto refused = [&](const void* prepared, const Plan* preparedBy) {
    const LaunchBuffers buffers{
        .workspace = at(0x10000), .workspaceBytes = 1024, .prepared = prepared, .preparedBy = preparedBy};
    const auto status = runtime_->launch(*plan, linearOperands(), buffers, nullptr);
    if (status) return std::string();
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    return status.error().message;
  };
  const std::string wanted =
      fmt::format("must begin as fake+s8 [{}, {}] of q4k_linear.tma {{tile=64}}", kN, std::int64_t{kK});
  EXPECT_THAT(refused(at(0x20000), bind(kN, kK, Precision::kFp8)),
              AllOf(HasSubstr(fmt::format("prepared weights are fake+fp8 [{}, {}] of q4k_linear.tma", kN, kK)),
                    HasSubstr(wanted)));
  EXPECT_THAT(refused(at(0x20000), bind(kN, kK, Precision::kExact)), HasSubstr("prepared weights are fake ["));
  EXPECT_THAT(refused(at(0x20000), bind(2 * kN, kK, Precision::kInt8)),
              HasSubstr(fmt::format("are fake+s8 [{}, {}]", 2 * kN, kK)));
  EXPECT_THAT(refused(at(0x20000), bind(kN, 2 * kK, Precision::kInt8)),
              HasSubstr(fmt::format("are fake+s8 [{}, {}]", kN, 2 * kK)));
  EXPECT_THAT(refused(at(0x20000), *runtime_->bind(linear(7, Alignment::kAny))),
              AllOf(HasSubstr("prepared weights are of a plan that prepares none"), HasSubstr(wanted)));
  EXPECT_THAT(refused(at(0x20010), plan), HasSubstr("prepared is 0x20010, must be a multiple of 256 bytes"));
  EXPECT_THAT(log_->launches, IsEmpty());
  EXPECT_EQ(refused(at(0x20000), plan), "");
  EXPECT_EQ(refused(nullptr, bind(2 * kN, kK, Precision::kInt8)), "");
}

TEST_F(RuntimeKeptTest, aPlanWithoutPreparationTakesAPreparedProblemAsItIs) {
  open();
  Problem problem = linear(7, Alignment::kAny);
  problem.linear.prepared = true;
  EXPECT_EQ((*runtime_->bind(problem))->preparedBytes(), 0);
  EXPECT_TRUE(launch(problem, linearOperands()));
  EXPECT_THAT(templates_.plain.lastCall(), FieldsAre(true, nullptr));
}

TEST_F(RuntimeKeptTest, plansOfOneFormatShareActivations) {
  open();
  const auto bindLossy = [&](std::int64_t n, Precision precision) {
    Problem problem = linear(7);
    problem.linear.n = n, problem.linear.precision = precision;
    return *runtime_->bind(problem);
  };
  const Plan *q = bindLossy(kN, Precision::kInt8), *k = bindLossy(kN / 2, Precision::kInt8);
  EXPECT_EQ(q->activationFormat(), "fake s8");
  EXPECT_EQ(q->activationBytes(), 7 * kK * 2);
  EXPECT_EQ(k->activationBytes(), q->activationBytes());
  EXPECT_EQ((*runtime_->bind(linear(7)))->activationFormat(), "");
  EXPECT_EQ((*runtime_->bind(linear(7)))->activationBytes(), 0);

  ASSERT_TRUE(runtime_->quantizeActivations(*q, linearOperands(), at(0x20000), q->activationBytes(), nullptr));
  LaunchBuffers buffers{at(0x10000), 1024};
  ASSERT_TRUE(runtime_->launch(*q, linearOperands(), buffers, nullptr));
  buffers.activations = at(0x20000), buffers.quantizedBy = q;
  ASSERT_TRUE(runtime_->launch(*q, linearOperands(), buffers, nullptr));
  ASSERT_TRUE(runtime_->launch(*k, linearOperands(), buffers, nullptr));
  // The path for misaligned operands reads x itself.
  Operands misaligned = linearOperands();
  misaligned.linear.out = at(0x3002);
  ASSERT_TRUE(runtime_->launch(*q, misaligned, buffers, nullptr));
  EXPECT_THAT(log_->launches, ElementsAre("q4k_linear.tma tile=64 int8(256)", "q4k_linear.tma tile=64 int8(7)",
                                          "q4k_linear.tma tile=64 int8(1007)", "q4k_linear.tma tile=64 int8(1007)",
                                          "q4k_linear.plain tile=64 int8(7)"));
}

TEST_F(RuntimeKeptTest, activationsThatDoNotFitAreRefusedByName) {
  open();
  const auto bindLossy = [&](std::int64_t m, std::int64_t k, Precision precision) {
    Problem problem = linear(m);
    problem.linear.k = k, problem.linear.precision = precision;
    return *runtime_->bind(problem);
  };
  const Plan* plan = bindLossy(7, kK, Precision::kInt8);
  const auto refused = [&](const Plan& launched, const void* activations, const Plan* quantizedBy) {
    const LaunchBuffers buffers{
        .workspace = at(0x10000), .workspaceBytes = 1024, .activations = activations, .quantizedBy = quantizedBy};
    const auto status = runtime_->launch(launched, linearOperands(), buffers, nullptr);
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(refused(*plan, at(0x20000), nullptr), HasSubstr("without the plan that filled them"));
  EXPECT_THAT(refused(*plan, at(0x20010), plan), HasSubstr("activations is 0x20010, must be a multiple of 256 bytes"));
  EXPECT_THAT(refused(*plan, at(0x20000), bindLossy(7, kK, Precision::kFp8)),
              AllOf(HasSubstr("activations are fake fp8 [7, 256] of q4k_linear.tma"),
                    HasSubstr("must be as fake s8 [7, 256] of q4k_linear.tma")));
  EXPECT_THAT(refused(*plan, at(0x20000), bindLossy(8, kK, Precision::kInt8)), HasSubstr("are fake s8 [8, 256]"));
  EXPECT_THAT(refused(*plan, at(0x20000), bindLossy(7, 2 * kK, Precision::kInt8)), HasSubstr("are fake s8 [7, 512]"));
  const Plan* exact = *runtime_->bind(linear(7));
  EXPECT_THAT(refused(*exact, at(0x20000), exact), HasSubstr("q4k_linear.tma {tile=64} takes none"));
  EXPECT_THAT(refused(*plan, at(0x20000), exact), HasSubstr("of a plan that fills none"));
  EXPECT_EQ(refused(*exact, nullptr, plan), "");

  log_->launches.clear();
  const auto quantize = [&](const Plan& filler, const Operands& operands, void* activations, std::int64_t bytes) {
    const auto status = runtime_->quantizeActivations(filler, operands, activations, bytes, nullptr);
    return status ? "" : status.error().message;
  };
  const std::int64_t bytes = plan->activationBytes();
  Operands odd = linearOperands(), oddStride = odd, none = odd;
  odd.linear.x = at(0x1002), oddStride.linear.xStride = kK + 4, none.linear.x = nullptr;
  EXPECT_THAT(quantize(*exact, linearOperands(), at(0x20000), bytes), HasSubstr("q4k_linear.tma {tile=64} takes none"));
  EXPECT_THAT(quantize(*plan, none, at(0x20000), bytes), HasSubstr("x is null"));
  EXPECT_THAT(quantize(*plan, odd, at(0x20000), bytes), HasSubstr("x is 0x1002, must be a multiple of 16 bytes"));
  EXPECT_THAT(quantize(*plan, oddStride, at(0x20000), bytes),
              HasSubstr("row stride is 260 elements, must be a multip"));
  EXPECT_THAT(quantize(*plan, {.linear = {.x = at(0x1000), .xStride = kK - 1}}, at(0x20000), bytes),
              HasSubstr("must be at least k"));
  EXPECT_THAT(quantize(*plan, linearOperands(), nullptr, bytes), HasSubstr("activations is null"));
  EXPECT_THAT(quantize(*plan, linearOperands(), at(0x20000), bytes - 1), HasSubstr("activations has 3583 bytes"));
  EXPECT_THAT(quantize(*plan, linearOperands(), at(0x20080), bytes), HasSubstr("must be a multiple of 256 bytes"));
  log_->foreign = {at(0x20000)};
  EXPECT_THAT(quantize(*plan, linearOperands(), at(0x20000), bytes), HasSubstr("activations: 0x20000 is not memory"));
  EXPECT_EQ(quantize(*bindLossy(0, kK, Precision::kInt8), {}, nullptr, 0), "");
  EXPECT_THAT(log_->launches, IsEmpty());
}

TEST_F(RuntimeKeptTest, activationsOfALaterLaunchAreMemoryOfTheDevice) {
  open();
  Problem problem = linear(7);
  problem.linear.precision = Precision::kInt8;
  const Plan* plan = *runtime_->bind(problem);
  LaunchBuffers buffers{.workspace = at(0x10000), .workspaceBytes = 1024};
  ASSERT_TRUE(runtime_->launch(*plan, linearOperands(), buffers, nullptr));
  buffers.activations = at(0x20000), buffers.quantizedBy = plan;
  log_->foreign = {at(0x20000)};
  const auto refused = runtime_->launch(*plan, linearOperands(), buffers, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("activations: 0x20000 is not memory"));
}

TEST_F(RuntimeKeptTest, preparedWeightsOfALaterLaunchAreMemoryOfTheDevice) {
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  LaunchBuffers buffers{.workspace = at(0x10000), .workspaceBytes = plan->workspaceBytes()};
  ASSERT_TRUE(runtime_->launch(*plan, linearOperands(), buffers, nullptr));
  buffers.prepared = at(0x20000);
  log_->foreign = {at(0x20000)};
  const auto refused = runtime_->launch(*plan, linearOperands(), buffers, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("prepared: 0x20000 is not memory"));
  // Whoever has no use for them does not look at them.
  const Plan* without = *runtime_->bind(linear(7, Alignment::kAny));
  ASSERT_EQ(without->preparedFormat(), "");
  buffers.workspaceBytes = without->workspaceBytes();
  EXPECT_TRUE(runtime_->launch(*without, linearOperands(), buffers, nullptr));
}

}  // namespace
}  // namespace tilewright
