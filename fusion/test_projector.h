// A small projector with random numbers, between two models that differ in everything.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "fusion/projector.h"

namespace suture {

// 3 layers of 2 heads of 8, turned in halves, one layer by another rule than the others.
inline ModelConfig small_source() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.ropes = {{.theta = 1e6F}, {.theta = 1e4F}};
  config.layer_rules = {{.rope = 0}, {.rope = 1}, {.rope = 0}};
  return config;
}

// 2 layers of 3 heads of 4, neighbours turned, by a rule with an attention factor.
inline ModelConfig small_target() {
  ModelConfig config;
  config.n_layers = 2;
  config.n_kv_heads = 3;
  config.head_dim = 4;
  config.kv_dtype = DType::kF32;
  config.rope_pairing = RopePairing::kNeighbours;
  config.ropes = {{.scaling = RopeScaling::kYarn,
                   .theta = 500,
                   .factor = 4,
                   .original_positions = 64,
                   .attention_factor = 1.25F}};
  config.layer_rules = {{}, {}};
  return config;
}

// A projector that owns its weights, which are `dtype`.
class TestProjector {
 public:
  // windows[l] = {that of K, that of V} of target layer l.
  using Windows = std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>;

  TestProjector(DType dtype, const Windows& windows, const ModelConfig& source = small_source(),
                const ModelConfig& target = small_target(), unsigned seed = 1,
                bool own_first_layer = false)
      : random_(seed) {
    value.own_first_layer = own_first_layer;
    value.source = projector_side("reader-1b", "fingerprint of the reader", "vocabulary", source);
    value.target = projector_side("writer-2b", "fingerprint of the writer", "vocabulary", target);
    weights_ = std::make_shared<std::vector<std::vector<uint16_t>>>();
    weights_->reserve(2 * windows.size());
    for (const auto& [key, values] : windows)
      value.layers.push_back({map(dtype, key), map(dtype, values)});
    value.fit = {.texts = 40,
                 .held_out_texts = 8,
                 .tokens = 20480,
                 .skipped_tokens = 4,
                 .seed = 7,
                 .files = {{"calibration.jsonl", std::string(64, 'a')}},
                 .held_out_kinds = {{.kind = "maths",
                                     .texts = 8,
                                     .tokens = 4064,
                                     .key_r2 = 0.75,
                                     .key_mse = 0.5,
                                     .value_r2 = 0.625,
                                     .value_mse = 0.25}}};
    value.evidence = ProjectorEvidence{.sink = 4, .reread = 32, .continued = 96, .contexts = {}};
    value.evidence->contexts.push_back(
        {.tokens = 512,
         .n = 12,
         .nll = {.self = 2, .transferred = 2.25, .other_text = 2.75, .text_only = 2.5, .none = 3},
         .consistency = 1.5});
    value.memory = weights_;
  }

  Projector value;

 private:
  std::vector<float> numbers(int64_t n, float scale) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& number : values) number = normal(random_);
    return values;
  }

  LinearMap map(DType dtype, const std::vector<int32_t>& window) {
    const int64_t in = value.inputs(window);
    const int64_t out = value.target.width();
    LinearMap map;
    map.window = window;
    map.dtype = dtype;
    auto rounded = round_weights(dtype, numbers(in * out, 0.25F));
    SUTURE_CHECK(rounded.has_value(), "{}", rounded.error().message());
    weights_->push_back(std::move(*rounded));
    map.weights = weights_->back();
    map.mean = numbers(in, 1);
    map.gamma = numbers(out, 1);
    map.beta = numbers(out, 1);
    map.ridge = 1e-3;
    map.r2 = 0.75;
    map.mse = 0.125;
    return map;
  }

  std::mt19937 random_;
  std::shared_ptr<std::vector<std::vector<uint16_t>>> weights_;
};

}  // namespace suture
