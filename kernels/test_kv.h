// Helpers of the kernel tests: a CPU stream, random values, and a sequence in scattered blocks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/device.h"
#include "kernels/kv_rows.h"

namespace suture {

inline std::unique_ptr<Stream> cpu_stream(int threads) {
  auto device = open_device("cpu", threads);
  SUTURE_CHECK(device.has_value(), "{}", device.error().message());
  auto stream = (*device)->make_stream();
  SUTURE_CHECK(stream.has_value(), "{}", stream.error().message());
  return std::move(*stream);
}

// Multiples of 1/64 in [-2, 2): exact in every K/V type.
inline std::vector<float> random_values(std::mt19937& random, int64_t count) {
  std::uniform_int_distribution<int> steps(-128, 127);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(steps(random)) / 64;
  return values;
}

// One layer of one sequence, in blocks that lie in reverse order with a gap between them. Memory
// that no token was written to holds NaN in every type.
class TestSequence {
 public:
  TestSequence(const KvShape& kv_shape, int64_t n_tokens, std::mt19937& random)
      : shape(kv_shape),
        key(random_values(random, n_tokens * width())),
        value(random_values(random, n_tokens * width())) {
    const int64_t n_blocks = kv_blocks_for(n_tokens);
    slab_.assign(static_cast<size_t>(2 * n_blocks * shape.block_bytes()), std::byte{0xff});
    for (int64_t b = 0; b < n_blocks; ++b) {
      block_ids_.push_back(static_cast<uint32_t>(2 * (n_blocks - 1 - b)));
    }
    write(0, n_tokens);
  }

  int64_t width() const { return static_cast<int64_t>(shape.n_kv_heads) * shape.head_dim; }
  KvLayerView view() { return {slab_.data(), block_ids_.data()}; }

  // Stores tokens [begin, end) of key and value.
  void write(int64_t begin, int64_t end) {
    const KvAppendArgs args{.key = key.data() + begin * width(),
                            .value = value.data() + begin * width(),
                            .n_rows = end - begin,
                            .first_entry = begin,
                            .shape = shape,
                            .kv = view()};
    const Status status = kv_append(*cpu_stream(1), args);
    SUTURE_CHECK(status.has_value(), "{}", status.error().message());
  }

  KvShape shape;
  std::vector<float> key;    // [n_tokens][n_kv_heads][head_dim]
  std::vector<float> value;  // the same

 private:
  std::vector<std::byte> slab_;
  std::vector<uint32_t> block_ids_;
};

}  // namespace suture
