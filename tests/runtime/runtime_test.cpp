// Binding and launching: which binary is taken, what misuse is refused, which path misaligned operands take.
#include "runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/runtime_fixture.h"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(RuntimeTest, bindsCompilesAndLaunches) {
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->choice().kernelTemplate->id(), "q4k_linear.tma");
  EXPECT_THAT(plan->origins(), ElementsAre("compiled by fake 1"));
  EXPECT_EQ(*runtime_->bind(linear(7)), plan);
  EXPECT_EQ(runtime_->find(pack(linear(7))), plan);
  EXPECT_EQ(runtime_->find(pack(linear(8))), nullptr);
  ASSERT_TRUE(launch(linear(7), linearOperands()));
  EXPECT_THAT(log_->launches, ElementsAre("q4k_linear.tma tile=64 exact(7)"));
}

TEST_F(RuntimeTest, problemsThatShareABinaryShareItsModule) {
  open();
  for (int m = 1; m < 6; ++m) ASSERT_TRUE(runtime_->bind(linear(m)));
  EXPECT_EQ(compiler_.builds, 2);  // The aligned template, and the one for misaligned operands.
  EXPECT_EQ(log_->loads, 2);
}

TEST_F(RuntimeTest, aStoredBinaryIsTakenBeforeTheCompiler) {
  storeBuild(templates_.tma, linear(7));
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_THAT(plan->origins(), ElementsAre("database " + path_.string()));
}

TEST_F(RuntimeTest, withoutACompilerTheBestStoredPlanRuns) {
  storeBuild(templates_.plain, linear(7));
  open(false);
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->choice().kernelTemplate->id(), "q4k_linear.plain");
  EXPECT_THAT(plan->warnings(), Contains(AllOf(HasSubstr("q4k_linear.tma"), HasSubstr("no database has its binary"),
                                               HasSubstr("there is no compiler"))));
}

TEST_F(RuntimeTest, whatIsCompiledIsKeptForTheNextStart) {
  const std::filesystem::path file = folder_ / "builds.twdb";
  buildCache_ = samples::open(file, DatabaseAccess::kCreate);
  open();
  ASSERT_TRUE(runtime_->bind(linear(7)));
  EXPECT_EQ(compiler_.builds, 2);  // The aligned template, and the one for misaligned operands.

  buildCache_ = samples::open(file, DatabaseAccess::kCreate);
  open(false);
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->choice().kernelTemplate->id(), "q4k_linear.tma");
  EXPECT_THAT(plan->origins(), ElementsAre("database " + file.string()));
  EXPECT_THAT(plan->warnings(), IsEmpty());
  EXPECT_EQ(compiler_.builds, 2);
}

TEST_F(RuntimeTest, aBinaryThatCannotBeKeptRunsAllTheSame) {
  const std::filesystem::path file = folder_ / "builds.twdb";
  samples::open(file, DatabaseAccess::kCreate);
  buildCache_ = samples::open(file, DatabaseAccess::kRead);
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_THAT(plan->origins(), ElementsAre("compiled by fake 1"));
  EXPECT_THAT(plan->warnings(), Contains(HasSubstr("a binary was not kept: ")));
}

TEST_F(RuntimeTest, withoutCompilerAndBinaryTheErrorNamesWhatIsMissing) {
  open(false);
  const auto plan = runtime_->bind(linear(7));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("nothing runs {\"op\": \"q4k_linear\""), HasSubstr("q4k_linear.tma"),
                    HasSubstr("no database is open"), HasSubstr("libtilewright_jit")));
}

TEST_F(RuntimeTest, aStoredBinaryThatBreaksAConstraintIsPassedOver) {
  storeBuild(templates_.tma, linear(7), 16);
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_THAT(plan->origins(), ElementsAre("compiled by fake 1"));
  EXPECT_THAT(plan->warnings(), Contains(HasSubstr("refused by no_spills")));
}

TEST_F(RuntimeTest, aFailedBuildYieldsToTheNextTemplateAndIsReported) {
  compiler_.refuses = {"q4k_linear.tma"};
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->choice().kernelTemplate->id(), "q4k_linear.plain");
  EXPECT_THAT(plan->warnings(), Contains(HasSubstr("cannot compile q4k_linear.tma")));
  compiler_.refuses = {"attention.tma", "attention.plain"};
  const auto none = runtime_->bind(attention());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kCompile);
  EXPECT_EQ(none.error().log, "line 1: no");
}

TEST_F(RuntimeTest, anInvalidProblemIsRefused) {
  open();
  Problem odd = linear(1);
  odd.linear.k = 100;
  EXPECT_EQ(runtime_->bind(odd).error().code, ErrorCode::kInvalidArgument);
  Problem wide = linear(1);
  wide.linear.n = 2000000;
  EXPECT_THAT(runtime_->bind(wide).error().message, HasSubstr("n must be at most 1000000"));
  EXPECT_EQ(Runtime::create({}).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(RuntimeTest, misalignedOperandsTakeThePathForAnyAlignment) {
  open();
  const std::pair<std::string_view, void (*)(LinearOperands&)> cases[] = {
      {"x_offset", [](LinearOperands& o) { o.x = at(0x1002); }},
      {"w_offset", [](LinearOperands& o) { o.w = at(0x2004); }},
      {"out_offset", [](LinearOperands& o) { o.out = at(0x3008); }},
      {"x_stride_odd", [](LinearOperands& o) { o.xStride = kK + 1; }},
      {"out_stride_odd", [](LinearOperands& o) { o.outStride = kN + 4; }},
  };
  for (const auto& [name, change] : cases) {
    Operands operands = linearOperands();
    change(operands.linear);
    log_->launches.clear();
    ASSERT_TRUE(launch(linear(7), operands)) << name;
    EXPECT_THAT(log_->launches, ElementsAre("q4k_linear.plain tile=64 exact(7)")) << name;
  }
  // One row has no stride.
  Operands row = linearOperands();
  row.linear.xStride = 3, row.linear.outStride = 1;
  log_->launches.clear();
  ASSERT_TRUE(launch(linear(1), row));
  EXPECT_THAT(log_->launches, ElementsAre("q4k_linear.tma tile=64 exact(1)"));
}

TEST_F(RuntimeTest, misalignedAttentionTakesThePathForAnyAlignment) {
  open();
  const std::pair<std::string_view, void (*)(AttentionOperands&)> cases[] = {
      {"q_offset", [](AttentionOperands& o) { o.q = at(0x1002); }},
      {"k_row_stride_odd", [](AttentionOperands& o) { o.kStride.row = 65; }},
      {"v_inner_stride_2", [](AttentionOperands& o) { o.vStride.column = 2; }},
      {"k_broadcast_over_heads", [](AttentionOperands& o) { o.kStride.head = 0; }},
      {"k_reversed", [](AttentionOperands& o) { o.kStride.row = -64; }},
      {"out_batch_stride_odd", [](AttentionOperands& o) { o.outStride.batch += 3; }},
      {"scale_negative", [](AttentionOperands& o) { o.scale = -0.1F; }},
      {"scale_zero", [](AttentionOperands& o) { o.scale = 0; }},
  };
  for (const auto& [name, change] : cases) {
    Operands operands = attentionOperands();
    change(operands.attention);
    log_->launches.clear();
    const auto status = launch(attention(), operands);
    ASSERT_TRUE(status) << name << status.error().message;
    EXPECT_THAT(log_->launches, ElementsAre("attention.plain tile=64 exact(5)")) << name;
  }
  log_->launches.clear();
  ASSERT_TRUE(launch(attention(), attentionOperands()));
  EXPECT_THAT(log_->launches, ElementsAre("attention.tma tile=64 exact(5)"));
}

TEST_F(RuntimeTest, withoutAPathForAnyAlignmentMisalignedOperandsAreRefused) {
  compiler_.refuses = {"q4k_linear.plain"};
  open();
  Operands operands = linearOperands();
  operands.linear.x = at(0x1002);
  const auto status = launch(linear(7), operands);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT((*runtime_->bind(linear(7)))->warnings(), Contains(HasSubstr("no path for misaligned operands")));
  EXPECT_TRUE(launch(linear(7), linearOperands()));
}

TEST_F(RuntimeTest, badLinearOperandsAreRefusedByName) {
  open();
  const std::pair<std::string_view, void (*)(LinearOperands&)> cases[] = {
      {"x is null", [](LinearOperands& o) { o.x = nullptr; }},
      {"w is null", [](LinearOperands& o) { o.w = nullptr; }},
      {"out is null", [](LinearOperands& o) { o.out = nullptr; }},
      {"x is 0x1001, must be a multiple of 2 bytes", [](LinearOperands& o) { o.x = at(0x1001); }},
      {"out is 0x3001, must be a multiple of 2", [](LinearOperands& o) { o.out = at(0x3001); }},
      {"bias is given, but the problem has none", [](LinearOperands& o) { o.bias = at(0x4000); }},
      {"x's row stride is 255 elements, must be at least k, which is 256",
       [](LinearOperands& o) { o.xStride = kK - 1; }},
      {"x's row stride is -256", [](LinearOperands& o) { o.xStride = -kK; }},
      {"out overlaps itself: its row stride is 511", [](LinearOperands& o) { o.outStride = kN - 1; }},
      {"x spans", [](LinearOperands& o) { o.xStride = std::int64_t{1} << 60; }},
      {"out spans", [](LinearOperands& o) { o.outStride = std::int64_t{1} << 35; }},
  };
  for (const auto& [part, change] : cases) {
    Operands operands = linearOperands();
    change(operands.linear);
    expectRefused(linear(7), operands, part);
  }
  expectRefused(linear(7, Alignment::k16, true), linearOperands(), "bias is null");
}

TEST_F(RuntimeTest, badAttentionOperandsAreRefusedByName) {
  open();
  const std::pair<std::string_view, void (*)(AttentionOperands&)> cases[] = {
      {"q is null", [](AttentionOperands& o) { o.q = nullptr; }},
      {"k is null", [](AttentionOperands& o) { o.k = nullptr; }},
      {"v is 0x3001", [](AttentionOperands& o) { o.v = at(0x3001); }},
      {"kv_len is 0x5002, must be a multiple of 4", [](AttentionOperands& o) { o.kvLen = at<std::int32_t>(0x5002); }},
      {"lse is given", [](AttentionOperands& o) { o.lse = at<float>(0x6000); }},
      {"capacity is -1", [](AttentionOperands& o) { o.capacity = -1; }},
      {"scale is nan", [](AttentionOperands& o) { o.scale = std::numeric_limits<float>::quiet_NaN(); }},
      {"out overlaps itself: its row stride is 63", [](AttentionOperands& o) { o.outStride.row = 63; }},
      {"out overlaps itself: its head stride is 0", [](AttentionOperands& o) { o.outStride.head = 0; }},
      {"out overlaps itself: its batch stride is -1280", [](AttentionOperands& o) { o.outStride.batch *= -1; }},
      {"k spans", [](AttentionOperands& o) { o.kStride.row = std::int64_t{1} << 40; }},
  };
  for (const auto& [part, change] : cases) {
    Operands operands = attentionOperands();
    change(operands.attention);
    expectRefused(attention(), operands, part);
  }
  Problem withLse = attention();
  withLse.attention.logSumExp = true;
  expectRefused(withLse, attentionOperands(), "lse is null");
}

TEST_F(RuntimeTest, anEmptyOutputLaunchesNothingAndAnEmptyCacheDoes) {
  open();
  EXPECT_TRUE(launch(linear(0), {}));
  Problem noRows = attention(), noBatch = attention();
  noRows.attention.qLen = 0, noBatch.attention.batch = 0;
  EXPECT_TRUE(launch(noRows, {}));
  EXPECT_TRUE(launch(noBatch, {}));
  EXPECT_THAT(log_->launches, IsEmpty());
  Operands operands = attentionOperands();
  operands.attention.capacity = 0, operands.attention.k = operands.attention.v = nullptr;
  ASSERT_TRUE(launch(attention(), operands));
  EXPECT_THAT(log_->launches, ElementsAre("attention.tma tile=64 exact(5)"));
}

TEST_F(RuntimeTest, badBuffersAreRefused) {
  open();
  const Plan* plan = *runtime_->bind(linear(7));
  EXPECT_EQ(plan->workspaceBytes(), 1024);  // The larger one, of the path for misaligned operands.
  const auto refused = [&](const LaunchBuffers& buffers) {
    const auto status = runtime_->launch(*plan, linearOperands(), buffers, nullptr);
    return status ? "" : status.error().message;
  };
  EXPECT_THAT(refused({at(0x10000), 255}), HasSubstr("workspace has 255 bytes, must have 256"));
  EXPECT_THAT(refused({nullptr, 1024}), HasSubstr("workspace is null"));
  EXPECT_THAT(refused({at(0x10010), 1024}), HasSubstr("must be a multiple of 256 bytes"));
  EXPECT_EQ(refused({at(0x10000), 256}), "");
}

TEST_F(RuntimeTest, memoryOfAnotherDeviceIsNamedAtTheFirstLaunch) {
  open();
  log_->foreign = {at(0x2000)};
  expectRefused(linear(7), linearOperands(), "w: 0x2000 is not memory of NVIDIA H200");
  log_->foreign.clear();
  ASSERT_TRUE(launch(linear(7), linearOperands()));
  const int checks = log_->addressChecks;
  ASSERT_TRUE(launch(linear(7), linearOperands()));
  EXPECT_EQ(log_->addressChecks, checks);
}

TEST_F(RuntimeTest, manyThreadsBindAndLaunchTheSameProblems) {
  open();
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int m = 1; m <= 200; ++m) {
        const LaunchBuffers buffers{at(0x10000), 1024};
        if (!runtime_->launch(linear(m), linearOperands(), buffers, nullptr)) ++failures;
        if (!runtime_->launch(attention(), attentionOperands(), buffers, nullptr)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(log_->launches.size(), 4u * 200 * 2);
  EXPECT_EQ(compiler_.builds, 4);
}

}  // namespace
}  // namespace tilewright
