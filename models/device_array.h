// Elements of one type in device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

template <typename T>
class DeviceArray {
 public:
  static Result<DeviceArray> create(Device& device, int64_t elements) {
    SUTURE_ASSIGN_OR_RETURN(auto buffer,
                            device.allocate(static_cast<size_t>(elements) * sizeof(T)));
    return DeviceArray(std::move(buffer));
  }
  DeviceArray() = default;
  T* data() { return buffer_->template as<T>(); }

 private:
  explicit DeviceArray(std::unique_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {}
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace suture
