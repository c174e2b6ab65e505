// Second moments of the rows of two models that read the same text: all that closed-form fits need,
// however many rows there were. One object for K or V of one set of texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fusion/dense_algebra.h"

namespace suture {

// Neighbouring layers of the source.
struct LayerWindow {
  int32_t first = 0;
  int32_t count = 0;

  int32_t end() const { return first + count; }
  auto operator<=>(const LayerWindow&) const = default;  // NOLINT(modernize-use-nullptr): clang 14
};

// A row has the K (or V) of all layers one after another, [layer][kv_head][head_dim].
struct FitShape {
  int32_t source_layers = 0;
  int32_t source_width = 0;  // kv heads * head_dim
  int32_t target_layers = 0;
  int32_t target_width = 0;
  int32_t widest = 0;      // layers of the widest window, 1 to source_layers
  int32_t own_layers = 0;  // 1: maps take the target's first layer as well

  int64_t source_features() const { return int64_t{source_layers} * source_width; }
  int64_t target_features() const { return int64_t{target_layers} * target_width; }
  int64_t own_features() const { return int64_t{own_layers} * target_width; }
  // Columns of a map: those of the window's layers, then the target's own.
  int64_t inputs(LayerWindow window) const {
    return int64_t{window.count} * source_width + own_features();
  }
  bool operator==(const FitShape&) const = default;
};

// The `count` source layers that are nearest to the relative depth of the target's layer. Windows
// of one target layer lie within each other.
LayerWindow window_around(const FitShape& shape, int32_t target_layer, int32_t count);

// Row i of both belongs to the same token.
struct RowPairs {
  const float* source = nullptr;  // [n_rows][source_features]
  const float* target = nullptr;  // [n_rows][target_features]
  int64_t n_rows = 0;
};

class Gram {
 public:
  explicit Gram(const FitShape& shape);
  // What an object of that shape takes.
  static uint64_t bytes_for(const FitShape& shape);
  // And add() for a while.
  static uint64_t scratch_bytes_for(const FitShape& shape, int threads);

  // Products are summed in float32 over these rows, and in float64 from call to call. Rows should
  // be given relative to a point near their mean: K often has constant parts far larger than what
  // varies.
  void add(const RowPairs& pairs, int threads);
  // The rows of another object of the same shape.
  void add(const Gram& other);

  const FitShape& shape() const { return shape_; }
  int64_t n_rows() const { return n_rows_; }
  std::span<const double> source_sums() const { return source_sums_; }        // [source_features]
  std::span<const double> target_sums() const { return target_sums_; }        // [target_features]
  std::span<const double> target_squares() const { return target_squares_; }  // [target_features]

  // Sums of products of one source layer [source_width] with others, at or behind it and within a
  // widest window: [source_width][others.count * source_width].
  MatrixView<const double> products(int32_t layer, LayerWindow others) const;
  // With a target layer whose widest window holds it: [source_width][target_width].
  MatrixView<const double> cross_products(int32_t layer, int32_t target_layer) const;

  // With the target's own columns: [source_width][own_features].
  MatrixView<const double> own_products(int32_t layer) const;
  // Of these with a target layer: [own_features][target_width].
  MatrixView<const double> own_cross_products(int32_t target_layer) const;

  // All state beside the shape, for saving it and taking it up again.
  std::vector<std::span<double>> storage();
  std::vector<std::span<const double>> storage() const;
  void set_n_rows(int64_t n_rows) { n_rows_ = n_rows; }

 private:
  // The products of one source layer with all that it may ever meet.
  struct Strip {
    LayerWindow others;            // source layers, itself the first
    LayerWindow targets;           // target layers
    std::vector<double> products;  // [source_width][others.count * source_width]
    std::vector<double> cross;     // [source_width][targets.count * target_width]
    std::vector<double> own;       // [source_width][own_features]
  };

  static Strip strip_of(const FitShape& shape, int32_t layer);
  void add_strip(int32_t layer, const RowPairs& pairs);
  void add_own(const RowPairs& pairs);

  FitShape shape_;
  int64_t n_rows_ = 0;
  std::vector<double> source_sums_;
  std::vector<double> target_sums_;
  std::vector<double> target_squares_;
  std::vector<Strip> strips_;         // [source_layers]
  std::vector<double> own_products_;  // [own_features][target_features]
};

}  // namespace suture
