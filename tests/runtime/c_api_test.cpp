// The C interface, through the shared library alone, on a machine that needs neither a GPU nor a driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tilewright/tilewright.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>
#include <tilewright/tilewright.hpp>

namespace {

using testing::AllOf;
using testing::HasSubstr;

tw_runtime* openCpu(const tw_jit* jit = nullptr) {
  const tw_runtime_options options{.struct_bytes = sizeof options, .device = "cpu", .jit = jit};
  tw_runtime* runtime = nullptr;
  EXPECT_EQ(tw_runtime_open(&options, &runtime), TW_OK) << tw_error_message();
  return runtime;
}

constexpr tw_problem kLinear{.operation = TW_LINEAR, .m = 4, .n = 8, .k = 16};

/// What a call answered that must fail with a status and a message.
void expectRefused(tw_status got, tw_status expected, std::string_view part) {
  EXPECT_EQ(got, expected) << part;
  EXPECT_THAT(tw_error_message(), HasSubstr(std::string(part)));
}

TEST(CApi, statesItsVersionAndNames) {
  EXPECT_EQ(tw_version(), std::to_string(TW_VERSION_MAJOR) + "." + std::to_string(TW_VERSION_MINOR) + "." +
                              std::to_string(TW_VERSION_PATCH));
  EXPECT_STREQ(tw_status_name(TW_OK), "ok");
  EXPECT_STREQ(tw_status_name(TW_VERSION_MISMATCH), "version");
  EXPECT_STREQ(tw_status_name(TW_INTERNAL), "internal");
  EXPECT_STREQ(tw_status_name(13), "unknown");
  EXPECT_STREQ(tw_status_name(-1), "unknown");
}

TEST(CApi, nullArgumentsAreRefusedByName) {
  tw_runtime* runtime = openCpu();
  tw_databases* databases = nullptr;
  const tw_plan* plan = nullptr;
  const tw_linear_operands operands{};
  expectRefused(tw_databases_open(nullptr, 0, nullptr), TW_INVALID_ARGUMENT, "databases is null");
  expectRefused(tw_databases_open(nullptr, 1, &databases), TW_INVALID_ARGUMENT, "paths is null");
  const char* paths[] = {nullptr};
  expectRefused(tw_databases_open(paths, 1, &databases), TW_INVALID_ARGUMENT, "paths[0] is null");
  expectRefused(tw_runtime_open(nullptr, &runtime), TW_INVALID_ARGUMENT, "options is null");
  expectRefused(tw_bind(nullptr, &kLinear, &plan), TW_INVALID_ARGUMENT, "runtime is null");
  expectRefused(tw_bind(runtime, nullptr, &plan), TW_INVALID_ARGUMENT, "problem is null");
  expectRefused(tw_bind(runtime, &kLinear, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  expectRefused(tw_prepare(runtime, nullptr, 2), TW_INVALID_ARGUMENT, "problems is null");
  expectRefused(tw_describe(nullptr, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  expectRefused(tw_launch_linear(nullptr, &operands, nullptr, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  expectRefused(tw_launch_attention(nullptr, nullptr, nullptr, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  expectRefused(tw_linear(nullptr, &kLinear, &operands, nullptr, nullptr), TW_INVALID_ARGUMENT, "runtime is null");
  expectRefused(tw_prepare_weights(nullptr, nullptr, nullptr, 0, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  EXPECT_EQ(tw_workspace_bytes(nullptr), 0);
  EXPECT_EQ(tw_prepared_bytes(nullptr), 0);
  EXPECT_STREQ(tw_prepared_format(nullptr), "");
  expectRefused(tw_quantize_activations(nullptr, nullptr, 0, nullptr, 0, nullptr), TW_INVALID_ARGUMENT, "plan is null");
  EXPECT_STREQ(tw_activation_format(nullptr), "");
  EXPECT_EQ(tw_activation_bytes(nullptr), 0);
  EXPECT_EQ(tw_runtime_warning(nullptr, 0), nullptr);
  EXPECT_EQ(tw_runtime_warning(runtime, 0), nullptr);
  tw_databases_close(nullptr);
  tw_jit_close(nullptr);
  tw_runtime_close(nullptr);
  tw_runtime_close(runtime);
}

TEST(CApi, badOptionsAndDevicesAreRefused) {
  tw_runtime* runtime = nullptr;
  tw_runtime_options options{.struct_bytes = 8, .device = "cpu"};
  expectRefused(tw_runtime_open(&options, &runtime), TW_INVALID_ARGUMENT, "struct_bytes of tw_runtime_options is 8");
  options = {.struct_bytes = sizeof options, .device = nullptr};
  expectRefused(tw_runtime_open(&options, &runtime), TW_INVALID_ARGUMENT, "device is null");
  options.device = "tpu:0";
  expectRefused(tw_runtime_open(&options, &runtime), TW_INVALID_ARGUMENT, "'tpu:0'");
  options.device = "cuda:-1";
  expectRefused(tw_runtime_open(&options, &runtime), TW_INVALID_ARGUMENT, "'cuda:-1'");
  EXPECT_EQ(runtime, nullptr);
}

TEST(CApi, compilersOfAnotherVersionAreRefused) {
  // The start of a handle as another version may make it.
  struct {
    char version[32] = "tilewright jit 9000";
    std::size_t bytes = 1;
    void* rest[64] = {};
  } foreign;
  const tw_runtime_options options{
      .struct_bytes = sizeof options, .device = "cpu", .jit = reinterpret_cast<const tw_jit*>(&foreign)};
  tw_runtime* runtime = nullptr;
  expectRefused(tw_runtime_open(&options, &runtime), TW_VERSION_MISMATCH, "'tilewright jit 9000'");
}

TEST(CApi, badDatabasesAreRefusedAndNamed) {
  const std::string path = testing::TempDir() + "/tilewright_c_api_test.twdb";
  std::ofstream(path) << "no database";
  const char* paths[] = {path.c_str()};
  tw_databases* databases = nullptr;
  expectRefused(tw_databases_open(paths, 1, &databases), TW_CORRUPT, path);
  paths[0] = "/nonexistent/x.twdb";
  expectRefused(tw_databases_open(paths, 1, &databases), TW_NOT_FOUND, "no such folder");
  EXPECT_EQ(databases, nullptr);
  EXPECT_EQ(tw_databases_open(nullptr, 0, &databases), TW_OK);
  tw_databases_close(databases);
}

TEST(CApi, badProblemsAreRefusedWithTheRule) {
  tw_runtime* runtime = openCpu();
  const tw_plan* plan = nullptr;
  struct Case {
    std::string_view part;
    tw_problem problem;
  };
  for (const auto& [part, problem] : {
           Case{"operation is 7, must be from 0 to 2", {.operation = 7}},
           Case{"alignment is 2", {.operation = TW_LINEAR, .alignment = 2}},
           Case{"precision is -1", {.operation = TW_LINEAR, .precision = -1}},
           Case{"precision is fp8, must be exact",
                {.operation = TW_LINEAR, .precision = TW_FP8, .m = 1, .n = 1, .k = 1}},
           Case{"bias is 2, must be 0 or 1", {.operation = TW_LINEAR, .bias = 2, .m = 1, .n = 8, .k = 16}},
           Case{"prepared is -1, must be 0 or 1",
                {.operation = TW_Q4K_LINEAR, .m = 1, .n = 8, .k = 256, .prepared = -1}},
           Case{"prepared is true, must be false: only q4k_linear prepares its weights",
                {.operation = TW_LINEAR, .m = 1, .n = 8, .k = 16, .prepared = 1}},
           Case{"causal is -1, must be 0 or 1", {.operation = TW_ATTENTION, .causal = -1}},
           Case{"log_sum_exp is 7, must be 0 or 1", {.operation = TW_ATTENTION, .log_sum_exp = 7}},
           Case{"n is 0", {.operation = TW_LINEAR, .m = 1, .k = 16}},
           Case{"m is -1", {.operation = TW_LINEAR, .m = -1, .n = 8, .k = 16}},
           Case{"k is 100, must be a multiple of 256", {.operation = TW_Q4K_LINEAR, .m = 1, .n = 8, .k = 100}},
           Case{"2^40", {.operation = TW_LINEAR, .m = INT64_MAX, .n = 8, .k = 16}},
           Case{"q_heads is 3, must be a multiple of kv_heads, which is 2",
                {.operation = TW_ATTENTION, .batch = 1, .q_heads = 3, .kv_heads = 2, .head_dim = 64}},
           Case{"head_dim is 12", {.operation = TW_ATTENTION, .batch = 1, .q_heads = 1, .kv_heads = 1, .head_dim = 12}},
       }) {
    expectRefused(tw_bind(runtime, &problem, &plan), TW_INVALID_ARGUMENT, std::string(part));
    EXPECT_EQ(tw_explain(runtime, &problem, nullptr, 0, nullptr), TW_INVALID_ARGUMENT);
    EXPECT_EQ(tw_prepare(runtime, &problem, 1), TW_INVALID_ARGUMENT);
  }
  EXPECT_EQ(plan, nullptr);
  tw_runtime_close(runtime);
}

TEST(CApi, withoutCompilersTheCpuSaysWhatIsMissing) {
  tw_runtime* runtime = openCpu();
  const tw_plan* plan = nullptr;
  expectRefused(tw_bind(runtime, &kLinear, &plan), TW_UNSUPPORTED, R"(nothing runs {"op": "linear", "n": 8)");
  EXPECT_EQ(tw_prepare(runtime, &kLinear, 1), TW_UNSUPPORTED);
  const tw_attention_operands wrong{};
  expectRefused(tw_attention(runtime, &kLinear, &wrong, nullptr, nullptr), TW_INVALID_ARGUMENT,
                "cannot launch linear with the operands of attention");
  tw_runtime_close(runtime);
}

TEST(CApi, explainsIntoTheCallersBuffer) {
  tw_runtime* runtime = openCpu();
  std::size_t length = 0;
  ASSERT_EQ(tw_explain(runtime, &kLinear, nullptr, 0, &length), TW_OK) << tw_error_message();
  std::string text(length + 1, '#');
  ASSERT_EQ(tw_explain(runtime, &kLinear, text.data(), text.size(), nullptr), TW_OK);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_THAT(text, AllOf(HasSubstr(R"("version": 1, "problem": {"op": "linear", "n": 8, "k": 16, "m": 4})"),
                          HasSubstr(R"("device": "cpu|)")));
  std::string tight(length, '#');
  expectRefused(tw_explain(runtime, &kLinear, tight.data(), tight.size(), nullptr), TW_INVALID_ARGUMENT, "must be");
  EXPECT_EQ(tight, std::string(length, '#'));
  tw_runtime_close(runtime);
}

TEST(CApi, everyThreadHasItsOwnError) {
  tw_databases* databases = nullptr;
  EXPECT_EQ(tw_databases_open(nullptr, 1, &databases), TW_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_STREQ(tw_error_message(), "");
    const tw_plan* plan = nullptr;
    EXPECT_EQ(tw_bind(nullptr, nullptr, &plan), TW_INVALID_ARGUMENT);
    EXPECT_STREQ(tw_error_message(), "runtime is null");
  }).join();
  EXPECT_STREQ(tw_error_message(), "paths is null");
}

TEST(CppApi, resultsCarryStatusAndMessage) {
  const std::array paths = {"/nonexistent/x.twdb"};
  const auto databases = tw::Databases::open(paths);
  ASSERT_FALSE(databases);
  EXPECT_EQ(databases.error().status, TW_NOT_FOUND);
  EXPECT_THAT(databases.error().message, HasSubstr("/nonexistent/x.twdb"));

  auto jit = tw::Jit::open(tw_jit_open);
  ASSERT_TRUE(jit);
  auto runtime = tw::Runtime::open({.jit = &*jit});
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_THAT(*runtime->explain(kLinear), HasSubstr(R"("op": "linear")"));
  EXPECT_EQ(runtime->bind({.operation = TW_LINEAR}).error().status, TW_INVALID_ARGUMENT);
}

}  // namespace
