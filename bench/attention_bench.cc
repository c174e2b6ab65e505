// Attention alone, in shapes of the models that Suture runs: decoding one token after some history,
// the same history in two segments, or half of it beside a segment that nobody listens to, and a
// prompt grid of 512 rows.
#include <benchmark/benchmark.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/attention.h"

namespace suture {
namespace {

struct Heads {
  int32_t n_heads, n_kv_heads, head_dim;
};

constexpr Heads kHeads[] = {{12, 2, 128}, {14, 2, 64}, {9, 3, 64}};  // 1.5B, 0.5B, 135M

enum class Segments { kOne, kTwo, kOneAndSilent, kHalf };

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The entries of one sequence, cut as asked for.
std::vector<AttentionSegment> segments_of(const KvLayerView& kv, int64_t n_entries, Segments of,
                                          const float* silence) {
  if (of == Segments::kOne) return {{.kv = kv, .begin = 0, .end = n_entries}};
  const AttentionSegment own{.kv = kv, .begin = n_entries / 2, .end = n_entries};
  if (of == Segments::kHalf) return {own};
  AttentionSegment other{.kv = kv, .begin = 0, .end = n_entries / 2};
  if (of == Segments::kOneAndSilent) other.log_gain = silence;
  return {other, own};
}

// `n_rows` last rows of a sequence of `n_entries`, on the benchmark's third argument of threads.
void attend(benchmark::State& state, int64_t n_rows, MatmulPath path,
            Segments of = Segments::kOne) {
  const Heads heads = kHeads[state.range(0)];
  const int64_t n_entries = state.range(1);
  auto device = open_device("cpu", static_cast<int>(state.range(2)));
  SUTURE_CHECK(device.has_value(), "{}", device.error().message());
  auto stream = (*device)->make_stream();
  SUTURE_CHECK(stream.has_value(), "{}", stream.error().message());

  const KvShape shape{1, heads.n_kv_heads, heads.head_dim, DType::kF16};
  std::vector<std::byte> slab(static_cast<size_t>(kv_blocks_for(n_entries) * shape.block_bytes()));
  std::vector<uint32_t> block_ids;
  for (int64_t b = 0; b < kv_blocks_for(n_entries); ++b) {
    block_ids.push_back(static_cast<uint32_t>(b));
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t count) {
    std::vector<float> result(static_cast<size_t>(count));
    for (float& x : result) x = normal(random);
    return result;
  };
  const auto rows = values(n_entries * heads.n_kv_heads * heads.head_dim);
  const KvLayerView kv{slab.data(), block_ids.data()};
  SUTURE_CHECK(kv_append(**stream, {rows.data(), rows.data(), n_entries, 0, shape, kv}).has_value(),
               "n_entries={}", n_entries);

  const auto query = values(n_rows * heads.n_heads * heads.head_dim);
  std::vector<float> out(query.size());
  std::vector<int32_t> positions;
  for (int64_t row = n_entries - n_rows; row < n_entries; ++row) {
    positions.push_back(static_cast<int32_t>(row));
  }
  const std::vector<float> silence(static_cast<size_t>(heads.n_heads), kMinusInfinity);
  const auto segments = segments_of(kv, n_entries, of, silence.data());
  const AttentionArgs args{.query = query.data(),
                           .positions = positions.data(),
                           .out = out.data(),
                           .n_rows = n_rows,
                           .n_heads = heads.n_heads,
                           .shape = shape,
                           .scale = 1 / std::sqrt(static_cast<float>(heads.head_dim)),
                           .segments = segments,
                           .path = path};
  for (auto _ : state) {
    SUTURE_CHECK(attention(**stream, args).has_value(), "n_rows={}", n_rows);
    benchmark::ClobberMemory();
  }
  const double seen = static_cast<double>(n_rows * (2 * n_entries - n_rows + 1)) / 2;
  state.counters["flop"] = benchmark::Counter(4 * seen * heads.n_heads * heads.head_dim,
                                              benchmark::Counter::kIsIterationInvariantRate);
  state.counters["kv"] = benchmark::Counter(static_cast<double>(slab.size()),
                                            benchmark::Counter::kIsIterationInvariantRate);
}

void decode(benchmark::State& state) { attend(state, 1, MatmulPath::kDecode); }
void decode_two_segments(benchmark::State& state) {
  attend(state, 1, MatmulPath::kDecode, Segments::kTwo);
}
void decode_half(benchmark::State& state) {
  attend(state, 1, MatmulPath::kDecode, Segments::kHalf);
}
void decode_half_and_silent(benchmark::State& state) {
  attend(state, 1, MatmulPath::kDecode, Segments::kOneAndSilent);
}
void prefill(benchmark::State& state) { attend(state, 512, MatmulPath::kPrefill); }

void histories(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"heads", "history", "threads"})
      ->ArgsProduct({{0, 1, 2}, {1024, 2048, 8192}, {1, 2}})
      ->UseRealTime();
}

BENCHMARK(decode)->Apply(histories);
BENCHMARK(decode_two_segments)->Apply(histories);
BENCHMARK(decode_half)->Apply(histories);
BENCHMARK(decode_half_and_silent)->Apply(histories);
BENCHMARK(prefill)
    ->ArgNames({"heads", "history", "threads"})
    ->ArgsProduct({{0, 1, 2}, {512, 4096}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace suture

BENCHMARK_MAIN();
