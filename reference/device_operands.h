// Operands on a device: uploaded once, checked as often as kernels run on them.
#pragma once

#include <array>

#include "base/result.h"
#include "reference/check.h"
#include "reference/operands.h"
#include "runtime/device.h"

namespace tilewright::reference {

class DeviceOperands {
 public:
  /// Copies the inputs and poisons the outputs with 0xff bytes. kOutOfMemory if they do not fit.
  static Result<DeviceOperands> upload(Device& device, const HostOperands& operands);

  /// Addresses on the device, for Template::encode.
  const Operands& operands() const { return operands_; }
  /// Copies other inputs to the same addresses. The operands must be laid out as those that were uploaded
  /// (kInvalidArgument otherwise).
  Result<void> rewrite(Device& device, const HostOperands& operands) const;
  /// Fills the outputs with 0xff again.
  Result<void> poison(Device& device) const;
  /// Reads an output buffer; keep both objects alive as long as the function.
  ReadOutput reader(Device& device) const;
  /// The whole output buffer, for comparisons of two runs bit by bit.
  Result<std::vector<std::byte>> download(Device& device, Role role) const;

 private:
  Operands operands_;
  std::array<DeviceBuffer, kRoles.size()> buffers_;
};

}  // namespace tilewright::reference
