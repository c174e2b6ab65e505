#include "models/test_gguf_builder.h"

#include <utility>

namespace suture {

void GgufBuilder::put_string(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

void GgufBuilder::begin(std::string_view key, uint32_t type) {
  put_string(entries_, key);
  put(entries_, type);
  ++n_entries_;
}

GgufBuilder& GgufBuilder::text(std::string_view key, std::string_view value) {
  begin(key, 8);
  put_string(entries_, value);
  return *this;
}

GgufBuilder& GgufBuilder::strings(std::string_view key,
                                  std::initializer_list<std::string_view> values) {
  begin(key, 9);
  put(entries_, uint32_t{8});
  put(entries_, static_cast<uint64_t>(values.size()));
  for (const std::string_view value : values) put_string(entries_, value);
  return *this;
}

GgufBuilder& GgufBuilder::strings(std::string_view key, std::span<const std::string> values) {
  begin(key, 9);
  put(entries_, uint32_t{8});
  put(entries_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) put_string(entries_, value);
  return *this;
}

GgufBuilder& GgufBuilder::int32s(std::string_view key, std::initializer_list<int32_t> values) {
  return int32s(key, std::span(values.begin(), values.size()));
}

GgufBuilder& GgufBuilder::int32s(std::string_view key, std::span<const int32_t> values) {
  begin(key, 9);
  put(entries_, uint32_t{5});
  put(entries_, static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) put(entries_, value);
  return *this;
}

GgufBuilder& GgufBuilder::floats(std::string_view key, std::initializer_list<float> values) {
  begin(key, 9);
  put(entries_, uint32_t{6});
  put(entries_, static_cast<uint64_t>(values.size()));
  for (const float value : values) put(entries_, value);
  return *this;
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                                 std::span<const std::byte> data) {
  tensors_.push_back({std::string(name), std::move(dims), type, {data.begin(), data.end()}});
  return *this;
}

std::vector<std::byte> GgufBuilder::build() const {
  std::string out = magic;
  put(out, version);
  put(out, tensors_.size() + extra_tensors);
  put(out, n_entries_ + extra_entries);
  out += entries_;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.type);
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    put(out, static_cast<uint64_t>(data.size()));
    data.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  if (!tensors_.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
  out += data;
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

}  // namespace suture
