// Runs a portable template on this CPU: builds a configuration, loads it, launches it on random operands, checks them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/tile/tile_compiler.h"
#include "reference/check.h"
#include "reference/device_operands.h"
#include "runtime/host/cpu_device.h"
#include "runtime/host/cpu_info.h"
#include "templates/sources.h"
#include "templates/template.h"

namespace tilewright {

struct PortableCase {
  std::string name;
  Problem problem;
  reference::OperandOptions options;
};

class PortableRun : public testing::Test {
 protected:
  void SetUp() override {
    auto compiler = createTileCompiler();
    if (!compiler) GTEST_SKIP() << compiler.error().message;
    compiler_ = std::move(*compiler);
    loader_ = std::move(*createHostLoader());
    cpu_ = makeCpuDevice(loader_.get());
  }

  /// The levels of x86-64 that this CPU runs.
  std::vector<std::string> targets() const {
    std::vector<std::string> targets;
    for (const char* target : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
      if (cpuRuns(target, cpu_->info().target)) targets.emplace_back(target);
    }
    return targets;
  }

  DeviceInfo deviceFor(const std::string& target) const {
    DeviceInfo device = cpu_->info();
    device.target = target;
    return device;
  }

  void check(const Template& kernelTemplate, const PortableCase& each, const DeviceInfo& device,
             const Configuration& configuration) {
    SCOPED_TRACE(
        fmt::format("{} of {} for {} with {}", each.name, kernelTemplate.id(), device.target, configuration.text()));
    const auto operands = reference::makeOperands(each.problem, each.options);
    ASSERT_TRUE(operands) << operands.error().message;
    check(kernelTemplate, reference::Expectation::compute(*operands, {}), *operands, device, configuration);
  }

  void check(const Template& kernelTemplate, const reference::Expectation& expected,
             const reference::HostOperands& operands, const DeviceInfo& device, const Configuration& configuration) {
    SCOPED_TRACE(configuration.text());
    const Problem& problem = expected.problem();
    const auto refusal = kernelTemplate.refusesConfiguration(problem, device, configuration);
    ASSERT_FALSE(refusal) << refusal->reason;
    const auto requests = kernelTemplate.buildRequests(problem, device, configuration, SourceCatalog());
    ASSERT_EQ(requests.size(), 1u);
    const auto binary = compiler_->build(requests[0]);
    ASSERT_TRUE(binary) << binary.error().message << "\n" << binary.error().log;
    auto loaded = cpu_->load(*binary);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto kernel = cpu_->find(**loaded, requests[0].entries[0]);
    ASSERT_TRUE(kernel) << kernel.error().message;

    const auto uploaded = reference::DeviceOperands::upload(*cpu_, operands);
    ASSERT_TRUE(uploaded) << uploaded.error().message;
    LaunchList launches;
    kernelTemplate.encode(problem, device, configuration, uploaded->operands(), nullptr, nullptr, launches);
    const std::vector kernels{*kernel};
    const auto launched = cpu_->launch(launches, kernels, nullptr);
    ASSERT_TRUE(launched) << launched.error().message;
    const auto verdict =
        reference::checkWhole(expected, kernelTemplate.precision(problem, configuration), uploaded->reader(*cpu_));
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(verdict->ok) << verdict->what;
  }

  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<HostLoader> loader_;
  std::unique_ptr<Device> cpu_;
};

}  // namespace tilewright
