#include "reference/device_operands.h"

namespace tilewright::reference {

Result<DeviceOperands> DeviceOperands::upload(Device& device, const HostOperands& operands) {
  DeviceOperands uploaded;
  std::array<void*, kRoles.size()> base{};
  for (const Role role : kRoles) {
    const auto index = static_cast<std::size_t>(role);
    const Extent& extent = operands.extent(role);
    if (extent.bytes == 0) continue;
    uploaded.buffers_[index] = TW_TRY(device.allocate(static_cast<std::size_t>(extent.bytes)));
    base[index] = uploaded.buffers_[index].data();
  }
  uploaded.operands_ = operands.at(base);
  TW_TRY(uploaded.rewrite(device, operands));
  TW_TRY(uploaded.poison(device));
  return uploaded;
}

Result<void> DeviceOperands::rewrite(Device& device, const HostOperands& operands) const {
  for (const Role role : kRoles) {
    const DeviceBuffer& buffer = buffers_[static_cast<std::size_t>(role)];
    const auto bytes = static_cast<std::size_t>(operands.extent(role).bytes);
    if (bytes != buffer.bytes()) {
      return fail(ErrorCode::kInvalidArgument, "cannot rewrite operands: a tensor has {} bytes, its buffer {}", bytes,
                  buffer.bytes());
    }
    const std::span<const std::byte> host = operands.buffer(role).span();
    if (!host.empty()) TW_TRY(device.copyToDevice(buffer.data(), host.data(), host.size()));
  }
  return {};
}

Result<void> DeviceOperands::poison(Device& device) const {
  for (const Role role : {Role::kOut, Role::kLse}) {
    const DeviceBuffer& buffer = buffers_[static_cast<std::size_t>(role)];
    if (buffer.bytes() > 0) TW_TRY(device.fill(buffer.data(), 0xff, buffer.bytes()));
  }
  return {};
}

ReadOutput DeviceOperands::reader(Device& device) const {
  return [this, &device](Role role, std::int64_t firstByte, std::span<std::byte> to) -> Result<void> {
    const auto* data = static_cast<const std::byte*>(buffers_[static_cast<std::size_t>(role)].data());
    return device.copyToHost(to.data(), data + firstByte, to.size());
  };
}

Result<std::vector<std::byte>> DeviceOperands::download(Device& device, Role role) const {
  const DeviceBuffer& buffer = buffers_[static_cast<std::size_t>(role)];
  std::vector<std::byte> bytes(buffer.bytes());
  if (!bytes.empty()) TW_TRY(device.copyToHost(bytes.data(), buffer.data(), bytes.size()));
  return bytes;
}

}  // namespace tilewright::reference
