// The small ops of one layer, in the shapes of the models that Suture runs: what they add to the
// matrix products and attention of a token, and of a chunk of a prompt.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/kv_rows.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/sampling.h"

namespace suture {
namespace {

struct Shape {
  int64_t hidden, ffn;
  int32_t n_heads, n_kv_heads, head_dim;
  int64_t vocab;
};

constexpr Shape kShapes[] = {{1536, 8960, 12, 2, 128, 151936},  // Qwen2.5 1.5B
                             {896, 4864, 14, 2, 64, 151936},    // Qwen2.5 0.5B
                             {576, 1536, 9, 3, 64, 49152}};     // SmolLM2 135M

// One op on `rows` rows, on a stream of `threads`.
class Ops {
 public:
  explicit Ops(benchmark::State& state) : shape_(kShapes[state.range(0)]), rows_(state.range(1)) {
    auto device = open_device("cpu", static_cast<int>(state.range(2)));
    SUTURE_CHECK(device.has_value(), "{}", device.error().message());
    stream_ = (*device)->make_stream().value();
    for (int64_t row = 0; row < rows_; ++row) positions_.push_back(static_cast<int32_t>(row + 700));
    for (int32_t i = 0; i < shape_.head_dim / 2; ++i) {
      frequencies_.push_back(static_cast<float>(std::pow(1e6, -2.0 * i / shape_.head_dim)));
    }
  }

  Status rms_norm() {
    return suture::rms_norm(*stream_, x(), y(), rows_, shape_.hidden, 1e-6f, out());
  }
  Status add() { return suture::add(*stream_, out(), x(), rows_ * shape_.hidden); }
  Status gated_silu() { return suture::gated_silu(*stream_, x(), y(), rows_ * shape_.ffn, out()); }
  Status rope_of_query() {
    return rope(*stream_, {.x = x(),
                           .out = out(),
                           .positions = positions_.data(),
                           .frequencies = frequencies_.data(),
                           .n_rows = rows_,
                           .n_heads = shape_.n_heads,
                           .head_dim = shape_.head_dim});
  }
  Status append() {
    const KvShape shape{1, shape_.n_kv_heads, shape_.head_dim, DType::kF16};
    slab_.resize(static_cast<size_t>(kv_blocks_for(rows_) * shape.block_bytes()));
    for (int64_t b = std::ssize(block_ids_); b < kv_blocks_for(rows_); ++b) {
      block_ids_.push_back(static_cast<uint32_t>(b));
    }
    return kv_append(*stream_, {x(), y(), rows_, 0, shape, {slab_.data(), block_ids_.data()}});
  }
  Status top_40() { return top_k(*stream_, logits_.data(), shape_.vocab, 40, ids_.data(), out()); }

 private:
  float* x() { return x_.data(); }
  float* y() { return y_.data(); }
  float* out() { return out_.data(); }

  std::vector<float> values(int64_t count) const {
    std::vector<float> result(static_cast<size_t>(count));
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = std::sin(static_cast<float>(i * 37 % 1001));
    }
    return result;
  }

  Shape shape_;
  int64_t rows_;
  std::unique_ptr<Stream> stream_;
  std::vector<float> x_ = values(rows_ * shape_.ffn);
  std::vector<float> y_ = values(rows_ * shape_.ffn);
  std::vector<float> out_ = values(rows_ * shape_.ffn);
  std::vector<float> logits_ = values(shape_.vocab);
  std::vector<int32_t> ids_ = std::vector<int32_t>(40);
  std::vector<int32_t> positions_;
  std::vector<float> frequencies_;
  std::vector<std::byte> slab_;
  std::vector<uint32_t> block_ids_;
};

void run(benchmark::State& state, Status (Ops::*op)()) {
  Ops ops(state);
  for (auto _ : state) {
    SUTURE_CHECK((ops.*op)().has_value(), "rows={}", state.range(1));
    benchmark::ClobberMemory();
  }
}

void of_rows(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"shape", "rows", "threads"})->ArgsProduct({{0, 1, 2}, {1, 512}, {1, 2}});
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void of_one_row(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"shape", "rows", "threads"})->ArgsProduct({{0, 1, 2}, {1}, {1}});
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(run, rms_norm, &Ops::rms_norm)->Apply(of_rows);
BENCHMARK_CAPTURE(run, add, &Ops::add)->Apply(of_rows);
BENCHMARK_CAPTURE(run, gated_silu, &Ops::gated_silu)->Apply(of_rows);
BENCHMARK_CAPTURE(run, rope_of_query, &Ops::rope_of_query)->Apply(of_rows);
BENCHMARK_CAPTURE(run, append, &Ops::append)->Apply(of_rows);
BENCHMARK_CAPTURE(run, top_40, &Ops::top_40)->Apply(of_one_row);

}  // namespace
}  // namespace suture

BENCHMARK_MAIN();
