// One tensor of a model file, in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/dtype.h"

namespace suture {

// One tensor as it lies in the file, row-major with the last dimension contiguous
// (GGUF's reversed dimensions are turned round on reading).
struct TensorInfo {
  std::string name;                  // canonical GGUF name: "blk.0.attn_q.weight"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // [rows, cols] or [width]
  std::span<const std::byte> data;   // into the mapping that the Checkpoint owns
  std::string unsupported_type;      // the file's name of a type this build cannot read, and then
                                     // dtype means nothing and data is empty
  std::string type_name() const {
    return unsupported_type.empty() ? std::string(dtype_name(dtype)) : unsupported_type;
  }
};

// "[576, 49152]": for messages.
std::string shape_text(std::span<const int64_t> shape);

// kCorrupt, naming both, if two tensors share a byte of the file.
Status check_no_overlap(std::span<const TensorInfo> tensors, const std::string& where);

}  // namespace suture
