// Binding and launching: which binary is taken, what misuse is refused, which path misaligned operands take. One long
// file: all tests share a runtime on a fake device whose log tells what ran.
#include "runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/cache/samples.h"
#include "tests/runtime/fakes.h"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kN = 512, kK = 256;

Problem linear(std::int64_t m, Alignment alignment = Alignment::k16, bool bias = false) {
  return {
      .operation = Operation::kQ4kLinear, .alignment = alignment, .linear = {.n = kN, .k = kK, .m = m, .bias = bias}};
}

Problem attention() {
  return {.operation = Operation::kAttention,
          .attention = {.batch = 2, .qHeads = 4, .kvHeads = 2, .headDim = 64, .qLen = 5, .kvLen = 100}};
}

/// An address that nothing reads.
template <typename T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

Operands linearOperands() {
  Operands operands;
  operands.linear = {.x = at(0x1000), .xStride = kK, .w = at(0x2000), .out = at(0x3000), .outStride = kN};
  return operands;
}

Operands attentionOperands() {
  Operands operands;
  AttentionOperands& a = operands.attention;
  a.q = at(0x1000), a.k = at(0x2000), a.v = at(0x3000), a.out = at(0x4000);
  a.capacity = 128, a.scale = 0.125F;
  a.qStride = a.outStride = {.batch = 4 * 5 * 64, .head = 5 * 64, .row = 64};
  a.kStride = a.vStride = {.batch = 2 * 128 * 64, .head = 128 * 64, .row = 64};
  return operands;
}

class RuntimeTest : public testing::Test {
 protected:
  void open(bool withCompiler = true) {
    RuntimeOptions options;
    options.device = std::make_unique<fakes::FakeDevice>(log_);
    if (std::filesystem::exists(path_)) {
      options.layers = DatabaseLayers({samples::open(path_, DatabaseAccess::kRead)});
    }
    if (withCompiler) options.compilers = {&compiler_};
    options.buildCache = buildCache_;
    options.templates = templates_.all;
    runtime_ = *Runtime::create(std::move(options));
  }

  /// Stores what the fake compiler makes of a template's default configuration.
  void storeBuild(const Template& kernelTemplate, const Problem& problem, int spillBytes = 0) {
    fakes::FakeCompiler compiler;
    compiler.spillBytes = spillBytes;
    const auto request =
        kernelTemplate
            .buildRequests(problem, fakes::deviceInfo(),
                           kernelTemplate.defaultConfiguration(problem, fakes::deviceInfo()), SourceCatalog())
            .front();
    StoredBuild build{*compiler.build(request), buildKey(request, ""), std::string(kernelTemplate.id()), {}};
    ASSERT_TRUE(samples::open(path_)->addBuilds(std::vector{build}));
  }

  Result<void> launch(const Problem& problem, const Operands& operands) {
    const auto plan = runtime_->bind(problem);
    if (!plan) return std::unexpected(plan.error());
    return runtime_->launch(**plan, operands, {at(0x10000), (*plan)->workspaceBytes()}, nullptr);
  }

  void expectRefused(const Problem& problem, const Operands& operands, std::string_view part) {
    const auto status = launch(problem, operands);
    ASSERT_FALSE(status) << part;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr(std::string(part)));
    EXPECT_THAT(log_->launches, IsEmpty());
  }

  samples::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "user.twdb";
  fakes::Templates templates_;
  fakes::FakeCompiler compiler_;
  std::shared_ptr<Database> buildCache_;
  std::shared_ptr<fakes::FakeDevice::Log> log_ = std::make_shared<fakes::FakeDevice::Log>();
  std::unique_ptr<Runtime> runtime_;
};

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

TEST_F(RuntimeTest, weightsArePreparedIntoABufferOfTheRightSize) {
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

TEST_F(RuntimeTest, preparedProblemsAreRunOnPreparedWeightsAlone) {
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

TEST_F(RuntimeTest, problemsThatPromiseNothingTakePreparedWeightsOrNone) {
  open();
  ASSERT_TRUE(launch(linear(7), linearOperands()));
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(false, nullptr));
  const Plan* plan = *runtime_->bind(linear(7));
  ASSERT_TRUE(runtime_->launch(*plan, linearOperands(), {at(0x10000), plan->workspaceBytes(), at(0x20000)}, nullptr));
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(false, at(0x20000)));
}

TEST_F(RuntimeTest, preparedWeightsServePlansWhoseFormatBeginsTheirs) {
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

TEST_F(RuntimeTest, preparedWeightsThatDoNotFitAreRefusedByName) {
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

TEST_F(RuntimeTest, aPlanWithoutPreparationTakesAPreparedProblemAsItIs) {
  open();
  Problem problem = linear(7, Alignment::kAny);
  problem.linear.prepared = true;
  EXPECT_EQ((*runtime_->bind(problem))->preparedBytes(), 0);
  EXPECT_TRUE(launch(problem, linearOperands()));
  EXPECT_THAT(templates_.plain.lastCall(), FieldsAre(true, nullptr));
}

TEST_F(RuntimeTest, plansOfOneFormatShareActivations) {
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

TEST_F(RuntimeTest, activationsThatDoNotFitAreRefusedByName) {
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

TEST_F(RuntimeTest, activationsOfALaterLaunchAreMemoryOfTheDevice) {
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

TEST_F(RuntimeTest, preparedWeightsOfALaterLaunchAreMemoryOfTheDevice) {
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
