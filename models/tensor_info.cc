#include "models/tensor_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace suture {

bool is_plain_name(std::string_view name) {
  constexpr size_t kMaxBytes = 1024;
  return !name.empty() && name.size() <= kMaxBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::optional<int64_t> element_count(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  return elements;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

TensorTable::TensorTable(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const TensorInfo* TensorTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<const TensorInfo*> TensorTable::all() const {
  std::vector<const TensorInfo*> pointers;
  for (const TensorInfo& tensor : tensors_) pointers.push_back(&tensor);
  return pointers;
}

bool all_f32(std::span<const TensorInfo> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorInfo& tensor) {
    return tensor.dtype == DType::kF32 && tensor.unsupported_type.empty();
  });
}

Status check_no_overlap(std::span<const TensorInfo> tensors, const std::string& where) {
  std::vector<const TensorInfo*> by_address;
  for (const TensorInfo& tensor : tensors) {
    if (!tensor.data.empty()) by_address.push_back(&tensor);
  }
  std::sort(by_address.begin(), by_address.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->data.data() < b->data.data();
  });
  for (size_t i = 1; i < by_address.size(); ++i) {
    const TensorInfo& before = *by_address[i - 1];
    if (before.data.data() + before.data.size() <= by_address[i]->data.data()) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensors '{}' and '{}' overlap", before.name, by_address[i]->name),
                where);
  }
  return {};
}

}  // namespace suture
