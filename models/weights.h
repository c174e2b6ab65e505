// Views of a checkpoint's tensors in the places where the forward pass wants them.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapping.h"
#include "kernels/device.h"
#include "kernels/matmul.h"
#include "models/checkpoint.h"
#include "models/norm_weights.h"

namespace suture {

struct LayerWeights {
  const float* attention_norm = nullptr;  // [hidden]
  const float* q_norm = nullptr;          // [head_dim], with qk_norm
  const float* k_norm = nullptr;          // [head_dim], with qk_norm
  WeightView q;                           // [n_heads * head_dim][hidden]
  WeightView k;                           // [n_kv_heads * head_dim][hidden]
  WeightView v;                           // [n_kv_heads * head_dim][hidden]
  const float* q_bias = nullptr;          // [n_heads * head_dim] or nullptr
  const float* k_bias = nullptr;          // [n_kv_heads * head_dim] or nullptr
  const float* v_bias = nullptr;
  WeightView attention_out;                    // [hidden][n_heads * head_dim]
  const float* post_attention_norm = nullptr;  // [hidden], with post_norms
  const float* ffn_norm = nullptr;             // [hidden]
  WeightView gate;                             // [ffn][hidden]
  WeightView up;                               // [ffn][hidden]
  WeightView down;                             // [hidden][ffn]
  const float* post_ffn_norm = nullptr;        // [hidden], with post_norms
};

struct Weights {
  WeightView embedding;  // [vocab][hidden]
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  // [hidden]
  WeightView output;                   // [vocab][hidden]; the embedding when tied

  // Memory the views point into when it is not the checkpoint's mapping.
  std::vector<std::unique_ptr<Buffer>> owned;
  Mapping packed;  // tiles (models/weight_packing.h)
};

// Checks every tensor's presence, shape and type against the configuration. The checkpoint must
// outlive the weights when the device reads its mapping in place.
// `norms`, if given, take the place of the checkpoint's own; kInvalidArgument if their shape is not
// the model's.
Result<Weights> load_weights(const Checkpoint& checkpoint, Device& device,
                             const NormWeights* norms = nullptr);

// Of them the embedding, and the norms and attention of the first layer, the only one in `layers`:
// no other tensor is looked at.
Result<Weights> load_first_layer(const Checkpoint& checkpoint, Device& device);

}  // namespace suture
