// A device that gives out no memory and counts what was asked for: code that allocates on it states
// its own needs, so that an estimate and the allocation are the same lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/device.h"

namespace suture {

// Buffers have a size and no address, copies do nothing; no op may run on its streams. Reads host
// memory in place, as the CPU does.
class CountingDevice final : public Device {
 public:
  uint64_t allocated_bytes() const { return allocated_bytes_; }  // in all, freed or not

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "counting"; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override;
  const std::byte* device_address(std::span<const std::byte> host) override { return host.data(); }
  Result<std::unique_ptr<Stream>> make_stream() override;
  Result<std::unique_ptr<Event>> make_event() override;

 private:
  uint64_t allocated_bytes_ = 0;
};

}  // namespace suture
