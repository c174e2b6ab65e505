// The host's memory and cores as a device.
#pragma once

#include <memory>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

// `threads` as in open_device().
Result<std::unique_ptr<Device>> open_cpu_device(int threads);

}  // namespace suture
