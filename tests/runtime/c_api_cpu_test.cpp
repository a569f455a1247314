// The C interface from end to end on the CPU: look up, compile or load, launch, compare. Small integers make every
// result exact, so that each comparison is for equality.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <tilewright/tilewright.hpp>

#include "base/dtype.h"
#include "compiler/code_generators.h"
#include "runtime/device.h"
#include "runtime/dispatcher.h"
#include "templates/sources.h"
#include "tests/cache/samples.h"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// BF16 memory at a chosen distance from a 256-byte boundary; filled with small integers.
class Tensor {
 public:
  Tensor(std::int64_t elements, int period, int offset = 0) : storage_(static_cast<std::size_t>(elements) + 256) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + ((256 - address % 256) % 256) / sizeof(Bf16) + offset;
    for (std::int64_t i = 0; i < elements; ++i) data_[i] = toBf16(static_cast<float>(i % period - period / 2));
  }
  Bf16* data() { return data_; }
  float operator[](std::int64_t i) const { return toFloat(data_[i]); }

 private:
  std::vector<Bf16> storage_;
  Bf16* data_;
};

struct LinearCase {
  std::string_view name;
  std::int64_t m, n, k;
  int offset = 0;          ///< elements that x and out lie behind an aligned address
  std::int64_t extra = 0;  ///< elements between rows
  bool bias = false;
};

class CApiCpu : public testing::Test {
 protected:
  CApiCpu() : jit_(*tw::Jit::open(tw_jit_open)), runtime_(*tw::Runtime::open({.device = "cpu", .jit = &jit_})) {}

  static void expectLinear(tw::Runtime& runtime, const LinearCase& c) {
    const auto [name, m, n, k, offset, extra, hasBias] = c;
    Tensor x(m * (k + extra), 3, offset), w(n * k, 5), bias(n, 7), out(m * (n + extra), 1, offset);
    const tw_problem problem{.operation = TW_LINEAR, .bias = hasBias, .m = m, .n = n, .k = k};
    const auto plan = runtime.bind(problem);
    ASSERT_TRUE(plan) << name << ": " << plan.error().message << plan.error().log;
    std::vector<std::byte> workspace(static_cast<std::size_t>(plan->workspaceBytes()) + 256);
    void* aligned = workspace.data();
    std::size_t space = workspace.size();
    std::align(256, space - 256, aligned, space);
    const auto status = plan->launch(tw_linear_operands{.x = x.data(),
                                                        .x_stride = k + extra,
                                                        .w = w.data(),
                                                        .bias = hasBias ? bias.data() : nullptr,
                                                        .out = out.data(),
                                                        .out_stride = n + extra},
                                     {.workspace = aligned, .workspace_bytes = plan->workspaceBytes()});
    ASSERT_TRUE(status) << name << ": " << status.error().message;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        float expected = hasBias ? bias[column] : 0;
        for (std::int64_t i = 0; i < k; ++i) expected += x[row * (k + extra) + i] * w[column * k + i];
        ASSERT_EQ(out[row * (n + extra) + column], toFloat(toBf16(expected)))
            << name << " at " << row << ", " << column;
      }
      // Nothing is written between the rows.
      for (std::int64_t i = n; i < n + (row + 1 < m ? extra : 0); ++i) ASSERT_EQ(out[row * (n + extra) + i], 0) << name;
    }
  }

  tw::Jit jit_;
  tw::Runtime runtime_;
};

TEST_F(CApiCpu, linearIsRightForAnyShapeStrideAndAlignment) {
  for (const LinearCase& c : {
           LinearCase{"even", 64, 64, 64},
           LinearCase{"tails", 5, 37, 41},
           LinearCase{"one_row", 1, 96, 128},
           LinearCase{"one_of_each", 1, 1, 1},
           LinearCase{"bias", 7, 24, 32, 0, 0, true},
           LinearCase{"stride_even", 9, 24, 32, 0, 8},
           LinearCase{"stride_odd", 9, 24, 32, 0, 3},
           LinearCase{"offset", 9, 24, 32, 1, 0},
           LinearCase{"offset_stride_bias", 9, 25, 33, 3, 5, true},
       }) {
    expectLinear(runtime_, c);
  }
}

TEST_F(CApiCpu, emptyProblemsTouchNothing) {
  const tw_problem none{.operation = TW_LINEAR, .m = 0, .n = 8, .k = 8};
  EXPECT_TRUE(runtime_.launch(none, tw_linear_operands{}, {}));
}

TEST_F(CApiCpu, attentionOverEqualScoresIsTheMeanOfWhatIsVisible) {
  // Zero queries make all scores equal. Value j is j + 1 in every column, so that row i of a causal problem, which sees
  // 4 + i keys of 8, has the mean of 1 to 4 + i, (5 + i) / 2: exact in BF16, as are the sums before it in FP32.
  constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kRows = 5, kKeys = 8, kCapacity = 16, kDim = 16;
  for (const int offset : {0, 1}) {  // The second one is not 16-byte aligned.
    Tensor q(kBatch * kHeads * kRows * kDim, 1, offset), k(kBatch * kKvHeads * kCapacity * kDim, 5, offset);
    Tensor v(kBatch * kKvHeads * kCapacity * kDim, 1, offset), out(kBatch * kHeads * kRows * kDim, 3, offset);
    for (std::int64_t i = 0; i < kBatch * kKvHeads * kCapacity; ++i) {
      const std::int64_t key = i % kCapacity;
      // What lies beyond kv_len must not be read into a result.
      const float value = key < kKeys ? static_cast<float>(key + 1) : std::numeric_limits<float>::quiet_NaN();
      for (int d = 0; d < kDim; ++d) v.data()[i * kDim + d] = toBf16(value);
    }
    const std::array<std::int32_t, kBatch> kvLen = {kKeys, 0};
    const tw_problem problem{.operation = TW_ATTENTION,
                             .batch = kBatch,
                             .q_heads = kHeads,
                             .kv_heads = kKvHeads,
                             .head_dim = kDim,
                             .q_len = kRows,
                             .kv_len = kKeys,
                             .causal = 1};
    const tw_strides queries{.batch = kHeads * kRows * kDim, .head = kRows * kDim, .row = kDim, .column = 1};
    const tw_strides keys{.batch = kKvHeads * kCapacity * kDim, .head = kCapacity * kDim, .row = kDim, .column = 1};
    const auto plan = runtime_.bind(problem);
    ASSERT_TRUE(plan) << plan.error().message << plan.error().log;
    std::vector<std::byte> workspace(static_cast<std::size_t>(plan->workspaceBytes()) + 512);
    void* aligned = workspace.data();
    std::size_t space = workspace.size();
    std::align(256, 1, aligned, space);
    const auto status = plan->launch(tw_attention_operands{.q = q.data(),
                                                           .k = k.data(),
                                                           .v = v.data(),
                                                           .out = out.data(),
                                                           .kv_len = kvLen.data(),
                                                           .capacity = kCapacity,
                                                           .scale = 0.25F,
                                                           .q_stride = queries,
                                                           .k_stride = keys,
                                                           .v_stride = keys,
                                                           .out_stride = queries},
                                     {.workspace = aligned, .workspace_bytes = plan->workspaceBytes()});
    ASSERT_TRUE(status) << status.error().message;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::int64_t first = (head * kRows + row) * kDim, second = first + kHeads * kRows * kDim;
        EXPECT_EQ(out[first], static_cast<float>(5 + row) / 2) << "row " << row << " offset " << offset;
        EXPECT_EQ(out[second], 0) << "an entry without keys gives zeros";
      }
    }
  }
}

TEST_F(CApiCpu, manyProblemsArePreparedAtOnceAndRunFromManyThreads) {
  std::vector<tw_problem> problems;
  for (int m = 1; m <= 6; ++m) problems.push_back({.operation = TW_LINEAR, .m = m, .n = 40, .k = 24});
  const auto status = runtime_.prepare(problems);
  ASSERT_TRUE(status) << status.error().message;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int m = 1; m <= 6; ++m) expectLinear(runtime_, {"thread", m, 40, 24});
    });
  }
}

TEST_F(CApiCpu, whatIsCompiledOnceIsKeptInTheBuildCache) {
  const samples::TemporaryFolder folder;
  const std::string file = folder / "builds.twdb";
  const tw_problem problem{.operation = TW_LINEAR, .m = 8, .n = 48, .k = 64};
  std::vector<std::string> origins;
  for (int start = 0; start < 2; ++start) {
    auto runtime = tw::Runtime::open({.device = "cpu", .jit = &jit_, .buildCache = file.c_str()});
    ASSERT_TRUE(runtime) << runtime.error().message;
    const auto plan = runtime->bind(problem);
    ASSERT_TRUE(plan) << plan.error().message;
    origins.emplace_back(plan->info().binary);
    expectLinear(*runtime, {"kept", 8, 48, 64});
  }
  EXPECT_THAT(origins, testing::ElementsAre(StartsWith("compiled by "), "database " + file));
}

TEST_F(CApiCpu, aBuildCacheThatCannotBeOpenedIsNamed) {
  const auto runtime = tw::Runtime::open({.device = "cpu", .jit = &jit_, .buildCache = "/dev/null/builds.twdb"});
  ASSERT_FALSE(runtime);
  EXPECT_THAT(runtime.error().message, HasSubstr("/dev/null/builds.twdb"));
}

TEST_F(CApiCpu, aWinnerOfADatabaseRunsFromItsBinary) {
  // Tune by hand: the first configuration that is not the default wins, with the binary that the compiler makes of it.
  const CodeGenerators generators = openCodeGenerators();
  const auto device = *openDevice("cpu", generators.hostLoader.get());
  const Problem problem{.operation = Operation::kLinear, .linear = {.n = 48, .k = 32, .m = 6}};
  const Candidate standard = defaultCandidates(problem, device->info()).front();
  Configuration configuration;
  for (const Configuration& each : enumerateConfigurations(*standard.kernelTemplate, problem, device->info())) {
    if (each != standard.configuration) configuration = each;
  }
  ASSERT_FALSE(configuration.empty());
  std::vector<StoredBuild> builds;
  for (const BuildRequest& request :
       standard.kernelTemplate->buildRequests(problem, device->info(), configuration, SourceCatalog())) {
    for (const auto& compiler : generators.compilers) {
      if (!compiler->handles(request.kind, request.target)) continue;
      auto binary = compiler->build(request);
      ASSERT_TRUE(binary) << binary.error().message;
      builds.push_back({std::move(*binary), buildKey(request, ""), std::string(standard.kernelTemplate->id()), {}});
    }
  }
  Record record = samples::record(1, 10);
  record.problem = toJson(problem), record.device = deviceKey(device->info());
  record.templateId = standard.kernelTemplate->id(), record.configuration = configuration.json();
  record.driverVersion = device->info().driverVersion, record.powerLimitWatts = device->info().powerLimitWatts;
  const samples::TemporaryFolder folder;
  const std::string path = folder / "cpu.twdb";
  ASSERT_TRUE(samples::open(path)->commitWinner(record, builds));

  const std::array paths = {path.c_str()};
  const auto databases = tw::Databases::open(paths);
  ASSERT_TRUE(databases) << databases.error().message;
  auto runtime = tw::Runtime::open({.device = "cpu", .databases = &*databases, .jit = &jit_});
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_EQ(tw_runtime_warning(runtime->get(), 0), nullptr);
  const tw_problem asked{.operation = TW_LINEAR, .m = 6, .n = 48, .k = 32};
  const tw_plan_info info = runtime->bind(asked)->info();
  EXPECT_EQ(info.provenance, TW_MEASURED);
  EXPECT_EQ(info.configuration, configuration.text());
  EXPECT_EQ(info.binary, "database " + path);
  EXPECT_EQ(info.median_microseconds, 10);
  EXPECT_EQ(info.default_microseconds, 20);
  EXPECT_THAT(*runtime->explain(asked), AllOf(HasSubstr(R"("provenance": "exact")"), HasSubstr(path)));
  expectLinear(*runtime, {"from_database", 6, 48, 32});

  const auto plan = runtime_.bind(asked);
  const tw_plan_info untuned = plan->info();
  EXPECT_STREQ(untuned.prepared_format, "");
  EXPECT_EQ(untuned.prepared_bytes, 0);
  EXPECT_EQ(plan->preparedFormat(), "");
  EXPECT_STREQ(untuned.activation_format, "");
  EXPECT_EQ(untuned.activation_bytes, 0);
  EXPECT_EQ(plan->activationFormat(), "");
  EXPECT_EQ(plan->activationBytes(), 0);
  const auto refused = plan->quantizeActivations(nullptr, 32, nullptr, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("linear.portable"));
  EXPECT_THAT(refused.error().message, HasSubstr("takes none"));
  EXPECT_EQ(untuned.provenance, TW_DEFAULT);
  EXPECT_THAT(untuned.binary, StartsWith("compiled by tile "));
}

}  // namespace
}  // namespace tilewright
