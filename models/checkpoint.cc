#include "models/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/sha256.h"
#include "models/gguf_checkpoint.h"
#include "models/hf_checkpoint.h"

namespace suture {

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return fail(ErrorCode::kNotFound, "no such model file or folder", path.string(),
                "give a .gguf file, a checkpoint folder, or a name from `suture models list`");
  return std::filesystem::is_directory(status) ? open_hf_folder(path) : open_gguf(path);
}

std::string Checkpoint::fingerprint() const {
  constexpr size_t kEndBytes = 4096;
  const ModelConfig& c = config();
  Sha256 hash;
  hash.update(fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", c.architecture,
      c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.hidden_size, c.ffn_size, c.vocab_size,
      c.max_positions, c.norm_eps, c.norm_offset, c.embedding_scale, c.attention_scale, c.score_cap,
      c.logit_cap, activation_name(c.activation), static_cast<int>(c.rope_pairing), c.qkv_bias,
      c.qk_norm, c.post_norms, c.fused_qkv, c.tied_embeddings, c.unsupported));
  hash.update(describe_ropes(c));
  for (const TensorInfo* tensor : tensors()) {
    hash.update(fmt::format("{} {} {} {}\n", tensor->name, tensor->type_name(),
                            shape_text(tensor->shape), tensor->data.size()));
    const size_t ends = std::min(kEndBytes, tensor->data.size());
    hash.update(tensor->data.first(ends));
    hash.update(tensor->data.last(ends));
  }
  return hash.finish();
}

}  // namespace suture
