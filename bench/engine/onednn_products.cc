#include "bench/engine/onednn_products.h"

#ifdef SUTURE_HAS_ONEDNN

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <utility>

namespace suture {
namespace {

using dnnl::memory;

// Ones: zeros or denormal numbers might be faster or slower than others.
memory filled(const memory::desc& description, const dnnl::engine& engine) {
  memory values(description, engine);
  auto* words = static_cast<uint16_t*>(values.get_data_handle());
  std::fill_n(words, description.get_size() / sizeof(uint16_t), uint16_t{0x3f80});
  return values;
}

// [n_tokens][cols] times [rows][cols] transposed; best of three, in the layout that suits oneDNN.
double seconds_of(int64_t rows, int64_t cols, int64_t n_tokens) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto bf16 = memory::data_type::bf16;
  const memory::desc x({n_tokens, cols}, bf16, memory::format_tag::ab);
  const memory::desc w({cols, rows}, bf16, memory::format_tag::any);
  const memory::desc out({n_tokens, rows}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, out), engine);
  dnnl::matmul product(description);
  const memory result(description.dst_desc(), engine);
  const memory source = filled(description.src_desc(), engine);
  const memory weights = filled(description.weights_desc(), engine);
  double best = 0;
  for (int i = 0; i < 4; ++i) {  // the first one is not counted
    const auto start = std::chrono::steady_clock::now();
    product.execute(stream,
                    {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}});
    stream.wait();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;
  }
  return best;
}

}  // namespace

double onednn_flop_per_second(const Weights& weights, int64_t n_tokens, int threads) {
  omp_set_num_threads(threads);
  std::map<std::pair<int64_t, int64_t>, int64_t> shapes;  // rows, cols: how often
  for (const LayerWeights& layer : weights.layers)
    for (const WeightView* w :
         {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate, &layer.up, &layer.down})
      ++shapes[{w->rows, w->cols}];
  double seconds = 0;
  double flop = 0;
  for (const auto& [shape, count] : shapes) {
    const auto [rows, cols] = shape;
    seconds += static_cast<double>(count) * seconds_of(rows, cols, n_tokens);
    flop += 2.0 * static_cast<double>(count * rows * cols * n_tokens);
  }
  return flop / seconds;
}

}  // namespace suture

#else

namespace suture {

double onednn_flop_per_second(const Weights&, int64_t, int) { return 0; }

}  // namespace suture

#endif
