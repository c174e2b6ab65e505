// Everything in which decoder-only families differ, read from GGUF metadata or config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/kv_layout.h"
#include "kernels/rope.h"
#include "kernels/rope_schedule.h"
#include "models/load_options.h"

namespace suture {

// kUnknown: the file can be inspected, but not run.
enum class Family : uint8_t { kUnknown, kLlama, kQwen2, kQwen3, kPhi3, kGemma, kGemma2, kGemma3 };

std::string_view family_name(Family family);
// The family of an architecture as GGUF files name it; kUnknown if this build has none for it.
Family family_of(std::string_view architecture);
// "llama, qwen2, ...": for messages.
std::string known_families();
bool is_gemma(Family family);

// What the MLP's gate goes through.
enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,  // Gaussian error linear unit, by its tanh approximation
};

std::string_view activation_name(Activation activation);

// Indices into ModelConfig::ropes where layers with a window have a schedule of their own.
inline constexpr int32_t kGlobalRope = 0;
inline constexpr int32_t kLocalRope = 1;

// In what layers of one model may differ.
struct LayerRule {
  int64_t window = 0;  // a query at position p sees positions p - window + 1 to p; 0 = all before
  int32_t rope = 0;    // index into ModelConfig::ropes

  bool operator==(const LayerRule&) const = default;
};

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
  float norm_offset = 0;      // added to the file's norm weights: 1 where it stores w of 1 + w
  float embedding_scale = 1;  // multiplies the rows of the embedding table
  float attention_scale = 0;  // multiplies q.k; usually 1 / sqrt(head_dim)
  float score_cap = 0;        // scores are cap * tanh(score / cap); 0 = none
  float logit_cap = 0;        // logits likewise; 0 = none
  Activation activation = Activation::kSilu;
  RopePairing rope_pairing = RopePairing::kHalves;
  std::vector<RopeSchedule> ropes;     // one, or as many as there are kinds of layers
  std::vector<LayerRule> layer_rules;  // [n_layers]
  bool qkv_bias = false;
  bool qk_norm = false;          // q and k of each head are normalised before they are rotated
  bool post_norms = false;       // what a block adds to the residual stream is normalised first
  bool fused_qkv = false;        // the file stores q, k and v as the rows of one matrix
  bool fused_gate_up = false;    // likewise the MLP's gate and up matrices
  bool tied_embeddings = false;  // the output matrix is the embedding table

  // Why this build cannot run the model ("rope scaling 'xpos' is not supported"); empty if it
  // can. Such a file opens, so that it can be inspected, and is refused when weights are loaded.
  std::string unsupported;

  // f32 K/V for float32 checkpoints, else f16 (design §3).
  DType kv_dtype = DType::kF16;
  KvShape kv_shape() const { return {n_layers, n_kv_heads, head_dim, kv_dtype}; }
};

// Every number of the schedules and of each layer's rule, for fingerprints.
std::string describe_ropes(const ModelConfig& config);

// kCorrupt or kUnsupported, naming the field, if the model cannot be run.
Status check_runnable(const ModelConfig& config, const std::string& where);

// Rules of n_layers layers of which each `period`-th is a full layer and the others see a window.
std::vector<LayerRule> alternating_windows(int32_t n_layers, int32_t period, int64_t window);

// Puts what the options say about rope in the place of what the file says. An override is for the
// layers that see everything: where windows have a schedule of their own, it stays as it is.
Status override_rope(const LoadOptions& options, ModelConfig& config);

}  // namespace suture
