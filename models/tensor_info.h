// One tensor of a model file, in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "kernels/dtype.h"

namespace suture {

// One tensor as it lies in the file, row-major with the last dimension contiguous
// (GGUF's reversed dimensions are turned round on reading).
struct TensorInfo {
  std::string name;  // canonical GGUF name: "blk.0.attn_q.weight"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;       // [rows, cols] or [width]
  std::span<const std::byte> data;  // into the mapping that the Checkpoint owns
  std::string unsupported_type;     // the file's name of a type this build cannot read, and then
                                    // dtype means nothing and data is empty
  std::string type_name() const {
    return unsupported_type.empty() ? std::string(dtype_name(dtype)) : unsupported_type;
  }
};

// Names of tensors and of metadata end up in messages and on terminals: 1 to 1024 printable ASCII
// characters, no space among them.
bool is_plain_name(std::string_view name);

// The product of the dimensions, or nothing if it does not fit.
std::optional<int64_t> element_count(std::span<const int64_t> shape);

// "[576, 49152]": for messages.
std::string shape_text(std::span<const int64_t> shape);

// The tensors of one file, by name and in order.
class TensorTable {
 public:
  explicit TensorTable(std::vector<TensorInfo> tensors);
  TensorTable(const TensorTable&) = delete;  // the index holds views of the names
  TensorTable& operator=(const TensorTable&) = delete;

  const TensorInfo* find(std::string_view name) const;
  std::vector<const TensorInfo*> all() const;  // in order

 private:
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

bool all_f32(std::span<const TensorInfo> tensors);

// kCorrupt, naming both, if two tensors share a byte of the file.
Status check_no_overlap(std::span<const TensorInfo> tensors, const std::string& where);

}  // namespace suture
