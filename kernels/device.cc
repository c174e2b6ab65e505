#include "kernels/device.h"

#include "kernels/cpu/cpu_device.h"

namespace suture {

Result<std::unique_ptr<Device>> open_device(const std::string& name, int threads) {
  if (name == "cpu") return open_cpu_device(threads);
  if (name.starts_with("cuda:")) {
    return fail(ErrorCode::kUnsupported, "this build has no CUDA support", name,
                "use device = \"cpu\"");
  }
  return fail(ErrorCode::kInvalidArgument, "unknown device '" + name + "'", {},
              "use \"cpu\" or \"cuda:N\"");
}

}  // namespace suture
