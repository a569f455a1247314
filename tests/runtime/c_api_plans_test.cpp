// The C interface over plans of fakes, which have formats of prepared weights and of activations, as no plan of the CPU
// has: what a plan tells, and that a launch is given the buffers, each with the plan that filled it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tilewright/tilewright.h>

#include "runtime/runtime.h"
#include "tests/runtime/fakes.h"

namespace tilewright {
namespace {

using testing::FieldsAre;
using testing::HasSubstr;

constexpr std::int64_t kN = 512, kK = 256;

template <typename T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

class CApiPlans : public testing::Test {
 protected:
  CApiPlans() {
    RuntimeOptions options;
    options.device = std::make_unique<fakes::FakeDevice>(log_);
    options.compilers = {&compiler_};
    options.templates = templates_.all;
    runtime_ = *Runtime::create(std::move(options));
  }

  const tw_plan* bind(std::int64_t m, Precision precision) {
    const Problem problem{.operation = Operation::kQ4kLinear,
                          .linear = {.n = kN, .k = kK, .m = m, .precision = precision}};
    return reinterpret_cast<const tw_plan*>(*runtime_->bind(problem));
  }

  static tw_status launch(const tw_plan* plan, const tw_buffers& buffers) {
    const tw_linear_operands operands{
        .x = at(0x1000), .x_stride = kK, .w = at(0x2000), .out = at(0x3000), .out_stride = kN};
    return tw_launch_linear(plan, &operands, &buffers, nullptr);
  }

  fakes::Templates templates_;
  fakes::FakeCompiler compiler_;
  std::shared_ptr<fakes::FakeDevice::Log> log_ = std::make_shared<fakes::FakeDevice::Log>();
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(CApiPlans, tellTheirFormats) {
  const tw_plan* plan = bind(7, Precision::kInt8);
  EXPECT_STREQ(tw_prepared_format(plan), "fake+s8");
  EXPECT_STREQ(tw_activation_format(plan), "fake s8");
  tw_plan_info info{.struct_bytes = sizeof info};
  ASSERT_EQ(tw_describe(plan, &info), TW_OK) << tw_error_message();
  EXPECT_STREQ(info.prepared_format, "fake+s8");
  EXPECT_EQ(info.prepared_bytes, tw_prepared_bytes(plan));
  EXPECT_STREQ(info.activation_format, "fake s8");
  EXPECT_EQ(info.activation_bytes, tw_activation_bytes(plan));
}

TEST_F(CApiPlans, runOnWhatOtherPlansPreparedAndQuantized) {
  const tw_plan *longest = bind(7, Precision::kInt8), *first = bind(9, Precision::kExact);
  ASSERT_EQ(tw_prepare_weights(longest, at(0x2000), at(0x20000), tw_prepared_bytes(longest), nullptr), TW_OK);
  tw_buffers buffers{.workspace = at(0x10000), .workspace_bytes = 1024};
  buffers.prepared = at(0x20000), buffers.prepared_by = longest;
  EXPECT_EQ(launch(first, buffers), TW_OK) << tw_error_message();
  EXPECT_THAT(templates_.tma.lastCall(), FieldsAre(false, at(0x20000)));
  buffers.prepared_by = first;
  EXPECT_EQ(launch(longest, buffers), TW_INVALID_ARGUMENT);
  EXPECT_THAT(tw_error_message(), HasSubstr("prepared weights are fake [512, 256]"));

  buffers = {.workspace = at(0x10000), .workspace_bytes = 1024, .activations = at(0x30000)};
  EXPECT_EQ(launch(longest, buffers), TW_INVALID_ARGUMENT);
  EXPECT_THAT(tw_error_message(), HasSubstr("without the plan that filled them"));
  buffers.quantized_by = longest;
  EXPECT_EQ(launch(longest, buffers), TW_OK) << tw_error_message();
}

}  // namespace
}  // namespace tilewright
