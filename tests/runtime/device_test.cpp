// Opening and listing devices, on machines with and without a GPU.
#include "runtime/device.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(OpenDevice, opensTheCpu) {
  const auto device = openDevice("cpu", nullptr);
  ASSERT_TRUE(device);
  EXPECT_EQ((*device)->info().kind, DeviceKind::kCpu);
}

TEST(OpenDevice, refusesAMalformedName) {
  for (const char* name :
       {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU", "cpu:0"}) {
    const auto device = openDevice(name, nullptr);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().code, ErrorCode::kInvalidArgument) << name;
    EXPECT_THAT(device.error().message, HasSubstr(fmt::format("'{}'", name)));
  }
}

TEST(OpenDevice, saysWhyAGpuIsMissing) {
  const auto device = openDevice("cuda:9999", nullptr);
  ASSERT_FALSE(device);
  // Without a driver or CUDA headers the reason is another, but there always is one.
  EXPECT_THAT(device.error().code,
              testing::AnyOf(ErrorCode::kNotFound, ErrorCode::kUnavailable, ErrorCode::kUnsupported));
  if (device.error().code == ErrorCode::kNotFound) {
    EXPECT_THAT(device.error().message, HasSubstr("cuda:9999: the driver has "));
  }
}

TEST(ListDevices, endsWithTheCpuAndExplainsMissingGpus) {
  std::vector<std::string> problems;
  const auto devices = listDevices(problems);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.back().first, "cpu");
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    EXPECT_EQ(devices[i].first, fmt::format("cuda:{}", i));
    EXPECT_EQ(devices[i].second.kind, DeviceKind::kCuda);
  }
  if (!openDevice("cuda:0", nullptr) && devices.size() == 1 && problems.empty()) {
    // Only a driver that answers, and has no device, leaves nothing to say.
    EXPECT_EQ(openDevice("cuda:0", nullptr).error().code, ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace tilewright
