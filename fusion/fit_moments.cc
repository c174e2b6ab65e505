#include "fusion/fit_moments.h"

#include <algorithm>

#include "base/check.h"
#include "base/parallel.h"

namespace suture {
namespace {

// Values of float32, so that taking them off rows is the same as adding them to what comes of it.
void set_to_mean_row(std::span<const float> rows, int64_t n_rows, std::vector<double>& mean) {
  std::ranges::fill(mean, 0);
  for (size_t i = 0; i < rows.size(); ++i) mean[i % mean.size()] += static_cast<double>(rows[i]);
  for (double& value : mean) value = static_cast<float>(value / static_cast<double>(n_rows));
}

void take_off(std::span<const double> origin, std::span<float> rows, int threads) {
  const size_t width = origin.size();
  for_each_in_parallel(std::ssize(rows) / std::ssize(origin), threads, [&](int64_t row) {
    float* values = rows.data() + static_cast<size_t>(row) * width;
    for (size_t i = 0; i < width; ++i) values[i] -= static_cast<float>(origin[i]);
  });
}

}  // namespace

FitMoments::FitMoments(const FitShape& shape, int32_t n_kinds)
    : fit_(shape),
      source_origin_(static_cast<size_t>(shape.source_features())),
      target_origin_(static_cast<size_t>(shape.target_features())) {
  for (int32_t kind = 0; kind < n_kinds; ++kind) held_out_.emplace_back(shape);
}

uint64_t FitMoments::bytes_for(const FitShape& shape, int32_t n_kinds) {
  const auto features = static_cast<uint64_t>(shape.source_features() + shape.target_features());
  return static_cast<uint64_t>(1 + n_kinds) * Gram::bytes_for(shape) + features * sizeof(double);
}

void FitMoments::add(const Rows& rows, std::optional<int32_t> held_out_kind, int threads) {
  if (rows.n_rows == 0) return;
  const auto counts = row_counts();
  if (std::ranges::all_of(counts, [](int64_t count) { return count == 0; })) {
    set_to_mean_row(rows.source, rows.n_rows, source_origin_);
    set_to_mean_row(rows.target, rows.n_rows, target_origin_);
  }
  take_off(source_origin_, rows.source, threads);
  take_off(target_origin_, rows.target, threads);
  Gram& gram = held_out_kind ? held_out_[static_cast<size_t>(*held_out_kind)] : fit_;
  gram.add({rows.source.data(), rows.target.data(), rows.n_rows}, threads);
}

Gram FitMoments::all_held_out() const {
  Gram all(fit_.shape());
  for (const Gram& kind : held_out_) all.add(kind);
  return all;
}

std::vector<std::span<double>> FitMoments::storage() {
  std::vector<std::span<double>> all = {source_origin_, target_origin_};
  const auto append = [&all](Gram& gram) {
    const auto parts = gram.storage();
    all.insert(all.end(), parts.begin(), parts.end());
  };
  append(fit_);
  for (Gram& kind : held_out_) append(kind);
  return all;
}

std::vector<int64_t> FitMoments::row_counts() const {
  std::vector<int64_t> counts = {fit_.n_rows()};
  for (const Gram& kind : held_out_) counts.push_back(kind.n_rows());
  return counts;
}

void FitMoments::set_row_counts(std::span<const int64_t> counts) {
  SUTURE_CHECK(counts.size() == 1 + held_out_.size(), "{} counts of {} kinds", counts.size(),
               held_out_.size());
  fit_.set_n_rows(counts[0]);
  for (size_t kind = 0; kind < held_out_.size(); ++kind)
    held_out_[kind].set_n_rows(counts[kind + 1]);
}

}  // namespace suture
