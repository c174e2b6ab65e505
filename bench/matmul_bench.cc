// Speed of the matrix product with the shapes of a 1.5B model.
//
//   matmul_bench --benchmark_filter='decode.*q4_k'
//
// `weights` is the rate at which stored weights are read, `products` counts two operations for each
// product. SUTURE_ISA lowers the instruction set; SUTURE_BENCH_THREADS sets the workers (default:
// one for each core allowed).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

struct Shape {
  int64_t cols, rows;
};

int threads() {
  const char* value = std::getenv("SUTURE_BENCH_THREADS");
  return value != nullptr ? std::atoi(value) : 0;
}

// Bytes below 64: read as a half or bfloat16 they are never infinite or NaN, which would be slow
// or meaningless; other values do not change the speed.
std::vector<std::byte> random_weights(DType dtype, int64_t elements) {
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype, elements).value()));
  std::minstd_rand random(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0x3f);
  return bytes;
}

struct Unmap {
  size_t bytes = 0;
  void operator()(std::byte* memory) const { munmap(memory, bytes); }
};
using HugeMemory = std::unique_ptr<std::byte, Unmap>;

// Memory in huge pages, as packed weights have it.
HugeMemory huge_memory(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, size, MADV_HUGEPAGE);
  return HugeMemory(static_cast<std::byte*>(memory), {size});
}

// The weights as the path reads them: quantised ones in tiles.
HugeMemory stored(DType dtype, const std::vector<std::byte>& rows, Shape shape, bool packed,
                  int64_t bytes) {
  HugeMemory memory = huge_memory(bytes);
  if (!packed) {
    std::ranges::copy(rows, memory.get());
    return memory;
  }
  const WeightView matrix = {dtype, rows.data(), shape.rows, shape.cols};
  if (!pack_tiles(matrix, 0, (shape.rows + kPackedRows - 1) / kPackedRows, memory.get()))
    std::abort();
  return memory;
}

void run(benchmark::State& state, DType dtype, Shape shape, int64_t n_rows, MatmulPath path) {
  auto device = open_device("cpu", threads()).value();
  auto stream = device->make_stream().value();
  // Enough copies that each pass reads from memory, as a model's many layers do.
  const int64_t bytes = dtype_bytes(dtype, shape.rows * shape.cols).value();
  const int64_t copies = path == MatmulPath::kDecode ? 1 + (256 << 20) / bytes : 1;
  const bool packed = path == MatmulPath::kDecode && is_packable(dtype);
  const int64_t stride = packed ? packed_bytes(dtype, shape.rows, shape.cols).value() : bytes;
  const HugeMemory weights = stored(dtype, random_weights(dtype, copies * shape.rows * shape.cols),
                                    {shape.cols, copies * shape.rows}, packed, copies * stride);
  const std::vector<float> x(static_cast<size_t>(n_rows * shape.cols), 0.5f);
  std::vector<float> out(static_cast<size_t>(n_rows * shape.rows));
  const WeightLayout layout = packed ? WeightLayout::kTiles : WeightLayout::kRows;
  int64_t copy = 0;
  for (auto _ : state) {
    const WeightView w = {dtype, weights.get() + copy * stride, shape.rows, shape.cols, layout};
    const Status status =
        matmul(*stream, {.x = x.data(), .w = w, .out = out.data(), .n_rows = n_rows, .path = path});
    if (!status.has_value()) state.SkipWithError(status.error().message().c_str());
    benchmark::ClobberMemory();
    copy = (copy + 1) % copies;
  }
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["weights"] = Counter(static_cast<double>(stride), rate);
  state.counters["products"] =
      Counter(2.0 * static_cast<double>(shape.rows * shape.cols * n_rows), rate);
}

void add(DType dtype, Shape shape, int64_t n_rows, MatmulPath path) {
  const std::string name =
      fmt::format("{}/{}/{}x{}/rows:{}", path == MatmulPath::kDecode ? "decode" : "prefill",
                  dtype_name(dtype), shape.cols, shape.rows, n_rows);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run(state, dtype, shape, n_rows, path);
  })->UseRealTime();
}

void add_all() {
  constexpr Shape kShapes[] = {
      {1536, 8960}, {8960, 1536}, {1536, 1536}, {1536, 256}, {1536, 151936}};
  for (Shape shape : kShapes) {
    for (DType dtype : {DType::kQ4_K, DType::kQ6_K, DType::kQ8_0, DType::kF16}) {
      for (int64_t n_rows : {1, 4}) add(dtype, shape, n_rows, MatmulPath::kDecode);
    }
    if (shape.rows > 100'000) continue;  // logits are asked of single rows only
    for (DType dtype : {DType::kQ4_K, DType::kQ6_K, DType::kF32}) {
      for (int64_t n_rows : {16, 512}) add(dtype, shape, n_rows, MatmulPath::kPrefill);
    }
  }
  for (DType dtype :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_K, DType::kBf16, DType::kF32}) {
    add(dtype, {1536, 8960}, 1, MatmulPath::kDecode);
  }
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  suture::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
