// Every plan of q4k_linear on sm_90a that rounds to 8 bits, for tests of what plans of one layer share.
#pragma once

#include <cstdint>

#include "base/device_info.h"
#include "templates/template.h"

namespace tilewright {

inline const DeviceInfo& device() {
  static const DeviceInfo kDevice = nominalDevice("sm_90a").value();
  return kDevice;
}

/// An address that nothing reads.
template <typename T = void>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

/// Calls `body(template, problem, configuration)` for int8 and for fp8.
template <typename Body>
void forEachLossyPlan(LinearShape shape, Body&& body) {
  for (const Precision precision : {Precision::kInt8, Precision::kFp8}) {
    shape.precision = precision;
    const Problem problem{.operation = Operation::kQ4kLinear, .linear = shape};
    for (const Template* each : allTemplates()) {
      if (each->refuses(problem, device())) continue;
      for (const Configuration& configuration : enumerateConfigurations(*each, problem, device())) {
        body(*each, problem, configuration);
      }
    }
  }
}

}  // namespace tilewright
