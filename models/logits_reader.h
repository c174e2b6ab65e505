// Reads small results off rows of logits in device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

class LogitsReader {
 public:
  static constexpr int64_t kMostTop = 256;

  // Of rows [vocab_size]. Both must outlive the reader.
  static Result<LogitsReader> create(Device& device, Stream& stream, int64_t vocab_size);

  // ln of the sum of exp(logit).
  Result<float> log_sum_exp(const float* logits);
  Result<float> read(const float* device_value);
  // The k best with their logits, best first; at most kMostTop.
  Result<std::vector<std::pair<int32_t, float>>> top(const float* logits, int64_t k);

 private:
  LogitsReader(Stream& stream, int64_t vocab_size) : stream_(&stream), vocab_size_(vocab_size) {}

  template <typename T>
  Status copy(std::span<T> host, const T* device);

  Stream* stream_;
  int64_t vocab_size_;
  std::unique_ptr<Buffer> value_;   // [1] float
  std::unique_ptr<Buffer> ids_;     // [kMostTop] int32
  std::unique_ptr<Buffer> logits_;  // [kMostTop] float
};

}  // namespace suture
