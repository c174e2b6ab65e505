// The second moments of K (or of V) that a projector is fitted to, and those of held-out texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fusion/gram.h"

namespace suture {

class FitMoments {
 public:
  // Held-out texts are kept apart by kind.
  FitMoments(const FitShape& shape, int32_t n_kinds);
  static uint64_t bytes_for(const FitShape& shape, int32_t n_kinds);

  // Rows of one text, from which the origin is taken off in place: the mean row of the first text,
  // since a constant part as large as that of K costs float32 the digits of what varies.
  struct Rows {
    std::span<float> source;  // [n_rows][source_features]
    std::span<float> target;  // [n_rows][target_features]
    int64_t n_rows = 0;
  };
  // As rows to fit to, or as held-out ones of a kind.
  void add(const Rows& rows, std::optional<int32_t> held_out_kind, int threads);

  const Gram& fit() const { return fit_; }
  int32_t n_kinds() const { return static_cast<int32_t>(held_out_.size()); }
  const Gram& held_out(int32_t kind) const { return held_out_[static_cast<size_t>(kind)]; }
  Gram all_held_out() const;
  std::span<const double> source_origin() const { return source_origin_; }  // [source_features]
  std::span<const double> target_origin() const { return target_origin_; }  // [target_features]

  // All state beside the shape, for saving it and taking it up again.
  std::vector<std::span<double>> storage();
  std::vector<int64_t> row_counts() const;  // of fit() and each kind
  // Each at least 0, as many as row_counts() has.
  void set_row_counts(std::span<const int64_t> counts);

 private:
  Gram fit_;
  std::vector<Gram> held_out_;  // [kinds]
  std::vector<double> source_origin_;
  std::vector<double> target_origin_;
};

}  // namespace suture
