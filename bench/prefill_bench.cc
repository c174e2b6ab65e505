// Products of prompts beside oneDNN's, on the shapes of a 1.5B model and of a projector to it.
//
//   prefill_bench --threads 1 --threads 2
//
// oneDNN multiplies bfloat16 matrices whose weights lie in the order of its choice; ours start from
// the file's weights, so unpacking them is part of their time. Both run alternately, each
// worker of oneDNN on an equal share of the output features with one OpenMP thread (Debian's build
// knows no other thread pool). The best of several runs counts: what disturbs only ever adds time.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/matmul.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

struct Shape {
  int64_t cols, rows;
};

struct Case {
  Shape shape;
  int64_t n_rows;
  int threads;
};

// One product by oneDNN, its output features split over a pool.
class OneDnnProduct {
 public:
  OneDnnProduct(const Case& each, ThreadPool& pool)
      : pool_(pool), engine_(dnnl::engine::kind::cpu, 0) {
    using dnnl::memory;
    const int64_t features = each.shape.rows / each.threads;
    const auto bf16 = memory::data_type::bf16;
    const memory::desc x({each.n_rows, each.shape.cols}, bf16, memory::format_tag::ab);
    const memory::desc w({each.shape.cols, features}, bf16, memory::format_tag::any);
    const memory::desc out({each.n_rows, features}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, out), engine_);
    kernel_ = description.impl_info_str();
    for (int i = 0; i < each.threads; ++i) {
      Share& share = shares_.emplace_back(Share{
          dnnl::matmul(description), dnnl::stream(engine_), memory(description.src_desc(), engine_),
          memory(description.weights_desc(), engine_), memory(description.dst_desc(), engine_)});
      fill(share.x);
      fill(share.w);
    }
  }

  void run() {
    pool_.parallel_for(std::ssize(shares_), [this](int64_t begin, int64_t end, int) {
      omp_set_num_threads(1);
      for (int64_t i = begin; i < end; ++i) {
        Share& share = shares_[static_cast<size_t>(i)];
        share.product.execute(
            share.stream,
            {{DNNL_ARG_SRC, share.x}, {DNNL_ARG_WEIGHTS, share.w}, {DNNL_ARG_DST, share.out}});
        share.stream.wait();
      }
    });
  }

  const std::string& kernel() const { return kernel_; }

 private:
  struct Share {
    dnnl::matmul product;
    dnnl::stream stream;
    dnnl::memory x, w, out;
  };

  static void fill(const dnnl::memory& memory) {
    auto* values = static_cast<uint16_t*>(memory.get_data_handle());
    for (size_t i = 0; i < memory.get_desc().get_size() / 2; ++i) {
      values[i] = static_cast<uint16_t>(0x3f00 + i % 61);  // 0.5 to 1
    }
  }

  ThreadPool& pool_;
  dnnl::engine engine_;
  std::vector<Share> shares_;
  std::string kernel_;
};

// The same product with weights of ours: quantised ones packed as when a model is loaded, plain
// ones as they lie in a file.
class SutureProduct {
 public:
  SutureProduct(const Case& each, DType dtype, Stream& stream)
      : case_(each),
        stream_(stream),
        rows_(static_cast<size_t>(dtype_bytes(dtype, each.shape.rows * each.shape.cols).value())),
        x_(static_cast<size_t>(each.n_rows * each.shape.cols)),
        out_(static_cast<size_t>(each.n_rows * each.shape.rows)) {
    std::minstd_rand random(1);
    // As halves these bytes are neither NaN nor subnormal, which would be slow; other values change
    // nothing.
    for (std::byte& b : rows_) b = static_cast<std::byte>(0x20 + random() % 0x20);
    for (float& x : x_) x = static_cast<float>(random() % 1000) / 1000 - 0.5f;
    w_ = {dtype, rows_.data(), each.shape.rows, each.shape.cols};
    if (is_packable(dtype)) pack();
  }

  void run() {
    const Status done =
        matmul(stream_, {.x = x_.data(), .w = w_, .out = out_.data(), .n_rows = case_.n_rows});
    SUTURE_CHECK(done.has_value(), "{}", done.error().message());
  }

 private:
  void pack() {
    tiles_.resize(static_cast<size_t>(packed_bytes(w_.dtype, w_.rows, w_.cols).value()) + 64);
    void* start = tiles_.data();
    size_t room = tiles_.size();
    auto* aligned = static_cast<std::byte*>(std::align(64, 1, start, room));
    const Status packed = pack_tiles(w_, 0, (w_.rows + kPackedRows - 1) / kPackedRows, aligned);
    SUTURE_CHECK(packed.has_value(), "{}", packed.error().message());
    w_.data = aligned;
    w_.layout = WeightLayout::kTiles;
  }

  Case case_;
  Stream& stream_;
  std::vector<std::byte> rows_, tiles_;
  WeightView w_;
  std::vector<float> x_, out_;
};

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Measured {
  double onednn_s = INFINITY, suture_s = INFINITY;
  std::string onednn_kernel;
};

Measured measure(const Case& each, DType dtype, int repeats) {
  Measured best;
  ThreadPool pool(each.threads);
  auto device = open_device("cpu", each.threads).value();
  auto stream = device->make_stream().value();
  OneDnnProduct theirs(each, pool);
  SutureProduct ours(each, dtype, *stream);
  best.onednn_kernel = theirs.kernel();
  for (int i = 0; i < repeats; ++i) {
    best.onednn_s = std::min(best.onednn_s, seconds([&] { theirs.run(); }));
    best.suture_s = std::min(best.suture_s, seconds([&] { ours.run(); }));
  }
  return best;
}

int run(int argc, char** argv) {
  CLI::App app("Products of prompts, beside oneDNN's in bfloat16");
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> rows = {64, 512};
  std::string type = "q4_k";
  int repeats = 15;
  bool json = false;
  app.add_option("--threads", threads, "Workers of both")->check(CLI::Range(1, 256));
  app.add_option("--rows", rows, "Rows of x")->check(CLI::Range(1, 65536));
  app.add_option("--type", type, "Weight type of ours: q4_k, q6_k, q8_0, bf16 and others");
  app.add_option("--repeats", repeats, "Runs of each; the best counts")
      ->check(CLI::Range(1, 10000));
  app.add_flag("--json", json, "One JSON value on stdout");
  CLI11_PARSE(app, argc, argv);
  DType dtype = DType::kQ4_K;
  const auto named = [&type](DType each) { return dtype_name(each) == type; };
  bool known = false;
  for (size_t i = 0; i < kDTypes && !known; ++i) {
    dtype = static_cast<DType>(i);
    known = named(dtype);
  }
  if (!known) {
    fmt::print(stderr, "prefill_bench: no weight type '{}'\n", type);
    return 1;
  }
  nlohmann::json results = nlohmann::json::array();
  if (!json) {
    fmt::print("{}, {} weights\n{:>8} {:>8} {:>6} {:>8} {:>15} {:>15} {:>7}\n",
               open_device("cpu", 1).value()->name(), type, "cols", "features", "rows", "threads",
               "oneDNN GFLOP/s", "suture GFLOP/s", "share");
  }
  for (const int n_threads : threads) {
    for (const int64_t n_rows : rows) {
      for (const Shape shape :
           {Shape{1536, 8960}, {8960, 1536}, {1536, 1536}, {1536, 256}, {3072, 1024}}) {
        const Case each = {shape, n_rows, n_threads};
        const Measured best = measure(each, dtype, repeats);
        const double gflop = 2e-9 * static_cast<double>(shape.cols * shape.rows * n_rows);
        results.push_back({{"cols", shape.cols},
                           {"features", shape.rows},
                           {"rows", n_rows},
                           {"threads", n_threads},
                           {"type", type},
                           {"onednn_gflop_s", gflop / best.onednn_s},
                           {"onednn_kernel", best.onednn_kernel},
                           {"suture_gflop_s", gflop / best.suture_s},
                           {"share_of_onednn", best.onednn_s / best.suture_s}});
        if (json) continue;
        fmt::print("{:>8} {:>8} {:>6} {:>8} {:>15.1f} {:>15.1f} {:>6.0f}%\n", shape.cols,
                   shape.rows, n_rows, n_threads, gflop / best.onednn_s, gflop / best.suture_s,
                   100 * best.onednn_s / best.suture_s);
      }
    }
  }
  if (json) fmt::print("{}\n", results.dump());
  return 0;
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) { return suture::run(argc, argv); }
