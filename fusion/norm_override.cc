#include "fusion/norm_override.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace suture {
namespace {

// Where layer `l` of `n_layers` lies among `source_layers`: `below` and the next, by `weight`.
struct Depth {
  size_t below = 0;
  double weight = 0;  // of the layer after `below`
};

Depth depth_of(int32_t l, int32_t n_layers, size_t source_layers) {
  const auto last = static_cast<double>(source_layers - 1);
  const double at = n_layers == 1 ? last : l * last / (n_layers - 1);
  const double below = std::min(std::floor(at), std::max(0.0, last - 1));
  return {static_cast<size_t>(below), at - below};
}

std::vector<float> between(const std::vector<float>& a, const std::vector<float>& b,
                           double weight) {
  std::vector<float> values(a.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((1 - weight) * a[i] + weight * b[i]);
  return values;
}

void note_difference(const std::vector<float>& a, const std::vector<float>& b,
                     const std::string& where, NormDifference& found) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    float difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) difference = std::numeric_limits<float>::infinity();
    if (difference > found.largest) found = {difference, where};
  }
}

Result<std::vector<float>> read_back(Stream& stream, const float* device, int64_t width) {
  std::vector<float> values(static_cast<size_t>(width));
  SUTURE_RETURN_IF_ERROR(stream.copy_to_host(std::as_writable_bytes(std::span(values)),
                                             reinterpret_cast<const std::byte*>(device)));
  SUTURE_RETURN_IF_ERROR(stream.synchronize());
  return values;
}

}  // namespace

NormWeights interpolate_norms(const NormWeights& source, int32_t n_layers) {
  NormWeights norms;
  for (int32_t l = 0; l < n_layers; ++l) {
    const Depth depth = depth_of(l, n_layers, source.layers.size());
    const NormWeights::Layer& below = source.layers[depth.below];
    const NormWeights::Layer& above =
        source.layers[std::min(depth.below + 1, source.layers.size() - 1)];
    norms.layers.push_back({between(below.attention, above.attention, depth.weight),
                            between(below.ffn, above.ffn, depth.weight)});
  }
  norms.output = source.output;
  return norms;
}

Result<NormWeights> norms_from_master(const Checkpoint& master, const ModelConfig& slave) {
  if (master.config().hidden_size != slave.hidden_size)
    return fail(ErrorCode::kIncompatible,
                fmt::format("norm = \"master\" needs the same hidden size, the master has {}, the "
                            "slave {}",
                            master.config().hidden_size, slave.hidden_size),
                master.path().string(), "remove norm, or use models of the same width");
  SUTURE_ASSIGN_OR_RETURN(const NormWeights norms, read_norm_weights(master));
  return interpolate_norms(norms, slave.n_layers);
}

NormDifference compare_norms(const NormWeights& a, const NormWeights& b) {
  NormDifference found;
  for (size_t l = 0; l < std::min(a.layers.size(), b.layers.size()); ++l) {
    note_difference(a.layers[l].attention, b.layers[l].attention,
                    fmt::format("layer {}, attention", l), found);
    note_difference(a.layers[l].ffn, b.layers[l].ffn, fmt::format("layer {}, MLP", l), found);
  }
  note_difference(a.output, b.output, "output", found);
  return found;
}

Status verify_norms(const Weights& loaded, Stream& stream, const ModelConfig& slave,
                    const Checkpoint& master) {
  SUTURE_ASSIGN_OR_RETURN(const NormWeights expected, norms_from_master(master, slave));
  NormWeights actual;
  for (const LayerWeights& layer : loaded.layers) {
    NormWeights::Layer read;
    SUTURE_ASSIGN_OR_RETURN(read.attention,
                            read_back(stream, layer.attention_norm, slave.hidden_size));
    SUTURE_ASSIGN_OR_RETURN(read.ffn, read_back(stream, layer.ffn_norm, slave.hidden_size));
    actual.layers.push_back(std::move(read));
  }
  SUTURE_ASSIGN_OR_RETURN(actual.output, read_back(stream, loaded.output_norm, slave.hidden_size));
  const NormDifference difference = compare_norms(actual, expected);
  if (difference.largest <= kNormTolerance) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("norm weights of the {} differ from the master's by {} after loading, at "
                          "most {} is allowed",
                          difference.where, difference.largest, kNormTolerance),
              master.path().string());
}

}  // namespace suture
