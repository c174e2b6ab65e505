#include "fusion/ridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "fusion/held_out.h"

namespace suture {
namespace {

// One factorisation, which serves all target layers with that window.
struct Job {
  LayerWindow window;
  double ridge = 0;
  std::vector<int32_t> target_layers;
};

std::vector<Job> make_jobs(const FitShape& shape, const RidgeOptions& options) {
  std::map<LayerWindow, std::vector<int32_t>> users;
  for (const int32_t count : options.windows)
    for (int32_t layer = 0; layer < shape.target_layers; ++layer)
      users[window_around(shape, layer, count)].push_back(layer);
  std::vector<Job> jobs;
  for (const auto& [window, layers] : users)
    for (const double ridge : options.ridges) jobs.push_back({window, ridge, layers});
  // The longest first, so that none is left for the end.
  std::ranges::stable_sort(
      jobs, [](const Job& a, const Job& b) { return a.window.count > b.window.count; });
  return jobs;
}

// Adds to each diagonal element its share. A column that hardly varies is held as one that varies a
// thousandth as much as the others, so that one that never does has a place in a sound system.
// False if the elements are no numbers.
bool add_ridge(double ridge, const MatrixView<double>& matrix) {
  constexpr double kLeast = 1e-6;  // of the mean diagonal element
  double trace = 0;
  for (int64_t i = 0; i < matrix.rows; ++i) trace += matrix.data[i * (matrix.stride + 1)];
  const double least = kLeast * trace / static_cast<double>(matrix.rows);
  for (int64_t i = 0; i < matrix.rows; ++i) {
    double& element = matrix.data[i * (matrix.stride + 1)];
    element += ridge * std::max(element, least);
  }
  return std::isfinite(trace);
}

class RidgeSearch {
 public:
  RidgeSearch(const Gram& fit, const Gram& held_out, const RidgeOptions& options)
      : fit_(fit),
        held_out_(held_out),
        options_(options),
        jobs_(make_jobs(fit.shape(), options)),
        best_(static_cast<size_t>(fit.shape().target_layers)),
        least_error_(best_.size(), std::numeric_limits<double>::infinity()) {
    for (const Job& job : jobs_) steps_ += std::ssize(job.target_layers);
  }

  Result<std::vector<RidgeFit>> run();

 private:
  std::vector<double> factored(const Job& job) const;
  std::vector<double> right_side(LayerWindow window, int32_t target_layer) const;
  void run_job(const Job& job);
  void fit_layer(const Job& job, const std::vector<double>& factor, int32_t target_layer);
  void offer(RidgeFit fit, int32_t target_layer, double error);
  void note_step();

  const Gram& fit_;
  const Gram& held_out_;
  const RidgeOptions& options_;
  const std::vector<Job> jobs_;
  int64_t steps_ = 0;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  int64_t done_ = 0;                 // guarded by mutex_
  std::vector<RidgeFit> best_;       // [target_layers]; guarded by mutex_
  std::vector<double> least_error_;  // [target_layers], of the map itself; guarded by mutex_
};

Result<std::vector<RidgeFit>> RidgeSearch::run() {
  for_each_in_parallel(std::ssize(jobs_), options_.threads,
                       [this](int64_t i) { run_job(jobs_[static_cast<size_t>(i)]); });
  if (ended_) return fail(ErrorCode::kCancelled, "the fit was interrupted");
  for (size_t layer = 0; layer < best_.size(); ++layer)
    if (best_[layer].weights.empty())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("target layer {} has no map: of {} rows to fit to and {} held out, "
                              "none of the ridges makes a sound system",
                              layer, fit_.n_rows(), held_out_.n_rows()),
                  "fit", "give more text, or a larger --ridge");
  return std::move(best_);
}

void RidgeSearch::run_job(const Job& job) {
  if (ended_) return;
  const std::vector<double> factor = factored(job);
  for (const int32_t layer : job.target_layers) {
    if (ended_) return;
    if (!factor.empty()) fit_layer(job, factor, layer);
    note_step();
  }
}

// The factor of the centred X^T X plus the ridge, its upper triangle; empty if there is none.
std::vector<double> RidgeSearch::factored(const Job& job) const {
  const LayerWindow window = job.window;
  const FitShape& shape = fit_.shape();
  const int64_t n = shape.inputs(window);
  const int64_t own = int64_t{window.count} * shape.source_width;
  const std::vector<double> mean = layer_means(fit_, window, 0).input;
  const auto rows = static_cast<double>(fit_.n_rows());
  std::vector<double> matrix(static_cast<size_t>(n * n));
  const auto put = [&](const MatrixView<const double>& from, int64_t top, int64_t left) {
    for (int64_t i = 0; i < from.rows; ++i) {
      const double scaled_mean = rows * mean[static_cast<size_t>(top + i)];
      for (int64_t j = 0; j < from.columns; ++j)
        matrix[static_cast<size_t>((top + i) * n + left + j)] =
            from.data[i * from.stride + j] - scaled_mean * mean[static_cast<size_t>(left + j)];
    }
  };
  for (int32_t layer = window.first; layer < window.end(); ++layer) {
    const int64_t top = int64_t{layer - window.first} * shape.source_width;
    put(fit_.products(layer, {layer, window.end() - layer}), top, top);
    put(fit_.own_products(layer), top, own);
  }
  if (shape.own_layers > 0) put(fit_.own_cross_products(0), own, own);
  if (!add_ridge(job.ridge, {matrix.data(), n, n, n}) || !factor({matrix.data(), n, n, n}))
    matrix.clear();
  return matrix;
}

// [target_width][features] of the centred X^T Y, by output channel.
std::vector<double> RidgeSearch::right_side(LayerWindow window, int32_t target_layer) const {
  const FitShape& shape = fit_.shape();
  const int64_t n = shape.inputs(window);
  const LayerMeans means = layer_means(fit_, window, target_layer);
  const auto rows = static_cast<double>(fit_.n_rows());
  std::vector<double> right(means.target.size() * static_cast<size_t>(n));
  const auto put = [&](const MatrixView<const double>& from, int64_t begin) {
    for (int64_t i = 0; i < from.rows; ++i) {
      const double scaled_mean = rows * means.input[static_cast<size_t>(begin + i)];
      for (int64_t c = 0; c < from.columns; ++c)
        right[static_cast<size_t>(c * n + begin + i)] =
            from.data[i * from.stride + c] - scaled_mean * means.target[static_cast<size_t>(c)];
    }
  };
  for (int32_t layer = window.first; layer < window.end(); ++layer)
    put(fit_.cross_products(layer, target_layer),
        int64_t{layer - window.first} * shape.source_width);
  put(fit_.own_cross_products(target_layer), int64_t{window.count} * shape.source_width);
  return right;
}

void RidgeSearch::fit_layer(const Job& job, const std::vector<double>& factor,
                            int32_t target_layer) {
  const int64_t n = fit_.shape().inputs(job.window);
  std::vector<double> weights = right_side(job.window, target_layer);
  solve({factor.data(), n, n, n}, {weights.data(), fit_.shape().target_width, n, n});
  LayerMeans means = layer_means(fit_, job.window, target_layer);
  const auto sums = channel_sums(held_out_, job.window, target_layer, means, weights);
  RidgeFit fit{.window = job.window, .ridge = job.ridge};
  double error = 0;
  double finished_error = 0;
  double variance = 0;
  const auto rows = static_cast<double>(held_out_.n_rows());
  for (size_t c = 0; c < sums.size(); ++c) {
    const ChannelLine line = best_line(sums[c], held_out_.n_rows());
    fit.gamma.push_back(line.gamma);
    fit.beta.push_back(line.beta + means.target[c]);
    error += sums[c].squared_error();
    finished_error += line.squared_error;
    variance += sums[c].yy - sums[c].y * sums[c].y / rows;
  }
  fit.mse = finished_error / (rows * static_cast<double>(sums.size()));
  fit.r2 = variance > 0 ? 1 - finished_error / variance : 0;
  fit.weights.assign(weights.begin(), weights.end());
  fit.mean = std::move(means.input);
  offer(std::move(fit), target_layer, error);
}

void RidgeSearch::offer(RidgeFit fit, int32_t target_layer, double error) {
  const std::lock_guard lock(mutex_);
  if (options_.on_trial)
    options_.on_trial(
        {fit.window.count, fit.ridge, target_layer, std::isfinite(error) ? fit.r2 : 0});
  const auto layer = static_cast<size_t>(target_layer);
  RidgeFit& best = best_[layer];
  // Of equals the narrower and the stronger, whichever thread came first.
  const auto rank = [](const RidgeFit& candidate) {
    return std::pair(candidate.window.count, -candidate.ridge);
  };
  const bool better =
      error < least_error_[layer] || (error == least_error_[layer] && rank(fit) < rank(best));
  if (!std::isfinite(error) || !better) return;
  least_error_[layer] = error;
  best = std::move(fit);
}

void RidgeSearch::note_step() {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (options_.on_step && !options_.on_step(done_, steps_)) ended_ = true;
}

}  // namespace

Result<std::vector<RidgeFit>> fit_ridge(const Gram& fit, const Gram& held_out,
                                        const RidgeOptions& options) {
  SUTURE_CHECK(fit.shape() == held_out.shape(), "moments of two shapes");
  if (fit.n_rows() == 0 || held_out.n_rows() == 0)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} rows to fit to, {} held out", fit.n_rows(), held_out.n_rows()),
                "fit", "give more or longer texts");
  return RidgeSearch(fit, held_out, options).run();
}

uint64_t ridge_bytes_for(const FitShape& shape, int threads) {
  const auto widest = static_cast<uint64_t>(shape.inputs({0, shape.widest}));
  const auto out = static_cast<uint64_t>(shape.target_width);
  const uint64_t layers = static_cast<uint64_t>(shape.target_layers);
  const uint64_t job = (widest * widest + 2 * widest * out) * sizeof(double);
  return static_cast<uint64_t>(threads) * job + layers * widest * out * sizeof(float);
}

}  // namespace suture
