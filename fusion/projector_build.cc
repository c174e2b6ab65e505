#include "fusion/projector_build.h"

#include <memory>
#include <span>
#include <utility>

#include "fusion/map_error.h"

namespace suture {
namespace {

// The 16-bit weights of all maps, kept where the maps point.
using WeightStore = std::vector<std::vector<uint16_t>>;

std::span<const double> origin_of(std::span<const double> origin, int64_t first, int64_t width,
                                  int64_t count) {
  return origin.subspan(static_cast<size_t>(first * width), static_cast<size_t>(count * width));
}

// Of what a map with such a window takes.
std::vector<double> input_origin(const FitMoments& moments, LayerWindow window) {
  const FitShape& shape = moments.fit().shape();
  const auto layers =
      origin_of(moments.source_origin(), window.first, shape.source_width, window.count);
  const auto own = origin_of(moments.target_origin(), 0, shape.target_width, shape.own_layers);
  std::vector<double> origin(layers.begin(), layers.end());
  origin.insert(origin.end(), own.begin(), own.end());
  return origin;
}

std::vector<float> sum_of(std::span<const double> a, std::span<const double> b) {
  std::vector<float> sums(a.size());
  for (size_t i = 0; i < a.size(); ++i) sums[i] = static_cast<float>(a[i] + b[i]);
  return sums;
}

Result<LinearMap> make_map(const FittedMaps& maps, int32_t layer, DType dtype, WeightStore& store) {
  const RidgeFit& fit = maps.fits[static_cast<size_t>(layer)];
  const FitShape& shape = maps.moments.fit().shape();
  LinearMap map;
  for (int32_t source = fit.window.first; source < fit.window.end(); ++source)
    map.window.push_back(source);
  map.dtype = dtype;
  SUTURE_ASSIGN_OR_RETURN(auto weights, round_weights(dtype, fit.weights));
  store.push_back(std::move(weights));
  map.weights = store.back();
  map.mean = sum_of(fit.mean, input_origin(maps.moments, fit.window));
  map.gamma.assign(fit.gamma.begin(), fit.gamma.end());
  map.beta =
      sum_of(fit.beta, origin_of(maps.moments.target_origin(), layer, shape.target_width, 1));
  map.ridge = fit.ridge;
  map.r2 = fit.r2;
  map.mse = fit.mse;
  return map;
}

// Means over the target's layers.
struct MeanError {
  double r2 = 0;
  double mse = 0;
};

MeanError mean_error(const FittedMaps& maps, const Gram& rows) {
  MeanError mean;
  const auto n = static_cast<double>(maps.fits.size());
  for (size_t layer = 0; layer < maps.fits.size(); ++layer) {
    const MapError error = map_error(rows, static_cast<int32_t>(layer), maps.fits[layer]);
    mean.r2 += error.r2() / n;
    mean.mse += error.mse() / n;
  }
  return mean;
}

HeldOutKind judged(const FittedMaps& key, const FittedMaps& value, const Gram& key_rows,
                   const Gram& value_rows) {
  const MeanError keys = mean_error(key, key_rows);
  const MeanError values = mean_error(value, value_rows);
  return {.tokens = key_rows.n_rows(),
          .key_r2 = keys.r2,
          .key_mse = keys.mse,
          .value_r2 = values.r2,
          .value_mse = values.mse};
}

}  // namespace

Status set_maps(const FittedMaps& key, const FittedMaps& value, DType dtype, Projector& projector) {
  projector.own_first_layer = key.moments.fit().shape().own_layers > 0;
  auto store = std::make_shared<WeightStore>();
  store->reserve(key.fits.size() + value.fits.size());
  for (size_t layer = 0; layer < key.fits.size(); ++layer) {
    LayerProjection maps;
    SUTURE_ASSIGN_OR_RETURN(maps.key, make_map(key, static_cast<int32_t>(layer), dtype, *store));
    SUTURE_ASSIGN_OR_RETURN(maps.value,
                            make_map(value, static_cast<int32_t>(layer), dtype, *store));
    projector.layers.push_back(std::move(maps));
  }
  projector.memory = std::move(store);
  return {};
}

std::vector<HeldOutKind> held_out_kinds(const FittedMaps& key, const FittedMaps& value,
                                        const std::vector<std::string>& names,
                                        const std::vector<int64_t>& texts) {
  std::vector<HeldOutKind> kinds;
  for (int32_t kind = 0; kind < key.moments.n_kinds(); ++kind) {
    const Gram& rows = key.moments.held_out(kind);
    if (rows.n_rows() == 0) continue;
    HeldOutKind& judgement =
        kinds.emplace_back(judged(key, value, rows, value.moments.held_out(kind)));
    judgement.kind = names[static_cast<size_t>(kind)];
    judgement.texts = texts[static_cast<size_t>(kind)];
  }
  return kinds;
}

HeldOutKind fitted_error(const FittedMaps& key, const FittedMaps& value, int64_t texts) {
  HeldOutKind fitted = judged(key, value, key.moments.fit(), value.moments.fit());
  fitted.texts = texts;
  return fitted;
}

}  // namespace suture
