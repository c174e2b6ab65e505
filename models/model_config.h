// Everything in which decoder-only families differ, read from GGUF metadata or config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/kv_layout.h"
#include "kernels/rope.h"

namespace suture {

// kUnknown: the file can be inspected, but not run.
enum class Family : uint8_t { kUnknown, kLlama, kQwen2 };

std::string_view family_name(Family family);
// The family of an architecture as files name it; kUnknown if this build has none for it.
Family family_of(std::string_view architecture);
// "llama, qwen2": for messages.
std::string known_families();

struct ModelConfig {
  Family family = Family::kUnknown;
  std::string architecture;  // as the file names it: "llama", "qwen2"
  int32_t n_layers = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t hidden_size = 0;
  int32_t ffn_size = 0;  // width of the gated MLP
  int32_t vocab_size = 0;
  int32_t max_positions = 0;  // context length the model was trained for
  float norm_eps = 0;
  float rope_theta = 0;
  RopePairing rope_pairing = RopePairing::kHalves;
  bool qkv_bias = false;
  bool tied_embeddings = false;  // the output matrix is the embedding table

  // Why this build cannot run the model ("rope scaling 'yarn' is not supported yet"); empty if it
  // can. Such a file opens, so that it can be inspected, and is refused when weights are loaded.
  std::string unsupported;

  // f32 K/V for float32 checkpoints, else f16 (design §3).
  DType kv_dtype = DType::kF16;
  KvShape kv_shape() const { return {n_layers, n_kv_heads, head_dim, kv_dtype}; }
};

// kCorrupt or kUnsupported, naming the field, if the model cannot be run.
Status check_runnable(const ModelConfig& config, const std::string& where);

// theta^(-2i / head_dim) for i = 0 .. head_dim / 2 - 1, in radians per position.
std::vector<float> rope_frequencies(const ModelConfig& config);

}  // namespace suture
