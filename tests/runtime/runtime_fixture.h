// A runtime on a fake device, whose log tells what ran, with problems and operands that nothing reads.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tests/cache/samples.h"
#include "tests/runtime/fakes.h"

namespace tilewright {

constexpr std::int64_t kN = 512, kK = 256;

inline Problem linear(std::int64_t m, Alignment alignment = Alignment::k16, bool bias = false) {
  return {
      .operation = Operation::kQ4kLinear, .alignment = alignment, .linear = {.n = kN, .k = kK, .m = m, .bias = bias}};
}

inline Problem attention() {
  return {.operation = Operation::kAttention,
          .attention = {.batch = 2, .qHeads = 4, .kvHeads = 2, .headDim = 64, .qLen = 5, .kvLen = 100}};
}

/// An address that nothing reads.
template <typename T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

inline Operands linearOperands() {
  Operands operands;
  operands.linear = {.x = at(0x1000), .xStride = kK, .w = at(0x2000), .out = at(0x3000), .outStride = kN};
  return operands;
}

inline Operands attentionOperands() {
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
    EXPECT_THAT(status.error().message, testing::HasSubstr(std::string(part)));
    EXPECT_THAT(log_->launches, testing::IsEmpty());
  }

  samples::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "user.twdb";
  fakes::Templates templates_;
  fakes::FakeCompiler compiler_;
  std::shared_ptr<Database> buildCache_;
  std::shared_ptr<fakes::FakeDevice::Log> log_ = std::make_shared<fakes::FakeDevice::Log>();
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace tilewright
