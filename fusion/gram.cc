#include "fusion/gram.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/parallel.h"

namespace suture {
namespace {

bool holds(LayerWindow window, int32_t layer) {
  return layer >= window.first && layer < window.end();
}

// The target layers whose widest window holds the source layer: neighbours, as windows move on with
// the target's depth.
LayerWindow targets_of(const FitShape& shape, int32_t layer) {
  LayerWindow targets;
  for (int32_t t = 0; t < shape.target_layers; ++t) {
    if (!holds(window_around(shape, t, shape.widest), layer)) continue;
    if (targets.count == 0) targets.first = t;
    ++targets.count;
  }
  return targets;
}

LayerWindow others_of(const FitShape& shape, int32_t layer) {
  return {layer, std::min(shape.widest, shape.source_layers - layer)};
}

int64_t strip_elements(const FitShape& shape, int32_t layer) {
  return int64_t{shape.source_width} *
         (int64_t{others_of(shape, layer).count} * shape.source_width +
          int64_t{targets_of(shape, layer).count} * shape.target_width + shape.own_features());
}

int64_t own_elements(const FitShape& shape) {
  return shape.own_features() * shape.target_features();
}

void add_sums(const float* rows, int64_t n_rows, std::vector<double>& sums,
              std::vector<double>* squares) {
  const auto width = std::ssize(sums);
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      const double value = rows[row * width + i];
      sums[static_cast<size_t>(i)] += value;
      if (squares != nullptr) (*squares)[static_cast<size_t>(i)] += value * value;
    }
}

// The diagonal of left^T right once more, in another way, where right begins with left: sums of
// products that are wrong would make maps that look like any others. Rows with NaN pass.
void check_squares(const MatrixView<const float>& left, const std::vector<float>& product,
                   int64_t stride) {
  std::vector<double> squares(static_cast<size_t>(left.columns));
  for (int64_t row = 0; row < left.rows; ++row)
    for (int64_t i = 0; i < left.columns; ++i) {
      const double value = left.data[row * left.stride + i];
      squares[static_cast<size_t>(i)] += value * value;
    }
  for (int64_t i = 0; i < left.columns; ++i) {
    const double square = squares[static_cast<size_t>(i)];
    const double found = product[static_cast<size_t>(i * (stride + 1))];
    // Sums of float32 over the rows of a text, with room for their rounding.
    SUTURE_CHECK(!(std::abs(found - square) > 1e-3 * square),
                 "column {}: the squares of {} rows add up to {}, their product has {}", i,
                 left.rows, square, found);
  }
}

// sums += left^T right, by way of float32.
void add_products(const MatrixView<const float>& left, const MatrixView<const float>& right,
                  std::vector<double>& sums) {
  if (sums.empty()) return;
  std::vector<float> product(sums.size());
  multiply_transposed_left(left, right,
                           {product.data(), left.columns, right.columns, right.columns});
  if (left.data == right.data) check_squares(left, product, right.columns);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(product[i]);
}

}  // namespace

LayerWindow window_around(const FitShape& shape, int32_t target_layer, int32_t count) {
  const double depth =
      (target_layer + 0.5) * shape.source_layers / shape.target_layers - 0.5;  // in source layers
  const auto first = static_cast<int32_t>(std::lround(depth - 0.5 * (count - 1)));
  return {std::clamp(first, 0, shape.source_layers - count), count};
}

Gram::Gram(const FitShape& shape)
    : shape_(shape),
      source_sums_(static_cast<size_t>(shape.source_features())),
      target_sums_(static_cast<size_t>(shape.target_features())),
      target_squares_(target_sums_.size()) {
  SUTURE_CHECK(shape.widest >= 1 && shape.widest <= shape.source_layers, "window {} of {} layers",
               shape.widest, shape.source_layers);
  SUTURE_CHECK(shape.own_layers == 0 || shape.own_layers == 1, "{} own layers", shape.own_layers);
  for (int32_t layer = 0; layer < shape.source_layers; ++layer)
    strips_.push_back(strip_of(shape, layer));
  own_products_.resize(static_cast<size_t>(own_elements(shape)));
}

Gram::Strip Gram::strip_of(const FitShape& shape, int32_t layer) {
  Strip strip{.others = others_of(shape, layer), .targets = targets_of(shape, layer)};
  const auto rows = static_cast<size_t>(shape.source_width);
  strip.products.resize(rows * static_cast<size_t>(strip.others.count * shape.source_width));
  strip.cross.resize(rows * static_cast<size_t>(strip.targets.count * shape.target_width));
  strip.own.resize(rows * static_cast<size_t>(shape.own_features()));
  return strip;
}

uint64_t Gram::bytes_for(const FitShape& shape) {
  int64_t elements = shape.source_features() + 2 * shape.target_features() + own_elements(shape);
  for (int32_t layer = 0; layer < shape.source_layers; ++layer)
    elements += strip_elements(shape, layer);
  return static_cast<uint64_t>(elements) * sizeof(double);
}

uint64_t Gram::scratch_bytes_for(const FitShape& shape, int threads) {
  int64_t largest = own_elements(shape);
  for (int32_t layer = 0; layer < shape.source_layers; ++layer)
    largest = std::max(largest, strip_elements(shape, layer));
  return static_cast<uint64_t>(largest * threads) * sizeof(float);
}

void Gram::add(const RowPairs& pairs, int threads) {
  if (pairs.n_rows == 0) return;
  n_rows_ += pairs.n_rows;
  add_sums(pairs.source, pairs.n_rows, source_sums_, nullptr);
  add_sums(pairs.target, pairs.n_rows, target_sums_, &target_squares_);
  for_each_in_parallel(shape_.source_layers + shape_.own_layers, threads, [&](int64_t i) {
    if (i < shape_.source_layers)
      add_strip(static_cast<int32_t>(i), pairs);
    else
      add_own(pairs);
  });
}

void Gram::add_strip(int32_t layer, const RowPairs& pairs) {
  Strip& strip = strips_[static_cast<size_t>(layer)];
  const int64_t source_stride = shape_.source_features();
  const int64_t target_stride = shape_.target_features();
  const float* own = pairs.source + int64_t{layer} * shape_.source_width;
  const MatrixView<const float> left{own, pairs.n_rows, shape_.source_width, source_stride};
  add_products(
      left, {own, pairs.n_rows, int64_t{strip.others.count} * shape_.source_width, source_stride},
      strip.products);
  add_products(left,
               {pairs.target + int64_t{strip.targets.first} * shape_.target_width, pairs.n_rows,
                int64_t{strip.targets.count} * shape_.target_width, target_stride},
               strip.cross);
  add_products(left, {pairs.target, pairs.n_rows, shape_.own_features(), target_stride}, strip.own);
}

void Gram::add_own(const RowPairs& pairs) {
  const int64_t stride = shape_.target_features();
  add_products({pairs.target, pairs.n_rows, shape_.own_features(), stride},
               {pairs.target, pairs.n_rows, stride, stride}, own_products_);
}

MatrixView<const double> Gram::products(int32_t layer, LayerWindow others) const {
  const Strip& strip = strips_[static_cast<size_t>(layer)];
  SUTURE_CHECK(others.first >= strip.others.first && others.end() <= strip.others.end(),
               "products of layer {} with layers {} to {}", layer, others.first, others.end());
  const int64_t width = shape_.source_width;
  return {strip.products.data() + (others.first - strip.others.first) * width, width,
          others.count * width, strip.others.count * width};
}

MatrixView<const double> Gram::cross_products(int32_t layer, int32_t target_layer) const {
  const Strip& strip = strips_[static_cast<size_t>(layer)];
  SUTURE_CHECK(holds(strip.targets, target_layer), "products of layer {} with target layer {}",
               layer, target_layer);
  const int64_t width = shape_.target_width;
  return {strip.cross.data() + (target_layer - strip.targets.first) * width, shape_.source_width,
          width, strip.targets.count * width};
}

MatrixView<const double> Gram::own_products(int32_t layer) const {
  const int64_t width = shape_.own_features();
  return {strips_[static_cast<size_t>(layer)].own.data(), shape_.source_width, width, width};
}

MatrixView<const double> Gram::own_cross_products(int32_t target_layer) const {
  const int64_t width = shape_.target_width;
  const double* first = own_products_.empty() ? nullptr : &own_products_[0] + target_layer * width;
  return {first, shape_.own_features(), width, shape_.target_features()};
}

void Gram::add(const Gram& other) {
  SUTURE_CHECK(shape_ == other.shape_, "moments of two shapes");
  n_rows_ += other.n_rows_;
  const auto to = storage();
  const auto from = other.storage();
  for (size_t i = 0; i < to.size(); ++i)
    std::ranges::transform(to[i], from[i], to[i].begin(), std::plus<>());
}

std::vector<std::span<const double>> Gram::storage() const {
  std::vector<std::span<const double>> all = {source_sums_, target_sums_, target_squares_,
                                              own_products_};
  for (const Strip& strip : strips_)
    for (const auto* part : {&strip.products, &strip.cross, &strip.own}) all.emplace_back(*part);
  return all;
}

std::vector<std::span<double>> Gram::storage() {
  std::vector<std::span<double>> all = {source_sums_, target_sums_, target_squares_, own_products_};
  for (Strip& strip : strips_)
    for (auto* part : {&strip.products, &strip.cross, &strip.own}) all.emplace_back(*part);
  return all;
}

}  // namespace suture
