#include "models/logits_reader.h"

#include <algorithm>
#include <array>

#include "kernels/sampling.h"

namespace suture {

Result<LogitsReader> LogitsReader::create(Device& device, Stream& stream, int64_t vocab_size) {
  LogitsReader reader(stream, vocab_size);
  SUTURE_ASSIGN_OR_RETURN(reader.value_, device.allocate(sizeof(float)));
  SUTURE_ASSIGN_OR_RETURN(reader.ids_, device.allocate(kMostTop * sizeof(int32_t)));
  SUTURE_ASSIGN_OR_RETURN(reader.logits_, device.allocate(kMostTop * sizeof(float)));
  return reader;
}

template <typename T>
Status LogitsReader::copy(std::span<T> host, const T* device) {
  SUTURE_RETURN_IF_ERROR(stream_->copy_to_host(std::as_writable_bytes(host),
                                               reinterpret_cast<const std::byte*>(device)));
  return stream_->synchronize();
}

Result<float> LogitsReader::log_sum_exp(const float* logits) {
  SUTURE_RETURN_IF_ERROR(suture::log_sum_exp(*stream_, logits, vocab_size_, value_->as<float>()));
  return read(value_->as<float>());
}

Result<float> LogitsReader::read(const float* device_value) {
  float value = 0;
  SUTURE_RETURN_IF_ERROR(copy(std::span<float>(&value, 1), device_value));
  return value;
}

Result<std::vector<std::pair<int32_t, float>>> LogitsReader::top(const float* logits, int64_t k) {
  k = std::min({k, kMostTop, vocab_size_});
  SUTURE_RETURN_IF_ERROR(
      top_k(*stream_, logits, vocab_size_, k, ids_->as<int32_t>(), logits_->as<float>()));
  std::array<int32_t, kMostTop> ids{};
  std::array<float, kMostTop> values{};
  SUTURE_RETURN_IF_ERROR(copy(std::span<int32_t>(ids), ids_->as<int32_t>()));
  SUTURE_RETURN_IF_ERROR(copy(std::span<float>(values), logits_->as<float>()));
  std::vector<std::pair<int32_t, float>> best;
  for (size_t i = 0; i < static_cast<size_t>(k); ++i) best.emplace_back(ids[i], values[i]);
  return best;
}

}  // namespace suture
