#include "models/test_text_model.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/half.h"

namespace suture {
namespace {

constexpr uint64_t kHidden = 32, kHeadDim = 8, kHeads = 4, kFfn = 48;

// ggml's numbers for kinds of tokens.
int32_t kind_number(TokenKind kind) {
  switch (kind) {
    case TokenKind::kNormal: return 1;
    case TokenKind::kUnknown: return 2;
    case TokenKind::kControl: return 3;
    case TokenKind::kUserDefined: return 4;
    case TokenKind::kUnused: return 5;
    case TokenKind::kByte: return 6;
  }
  return 0;
}

class TextModelWriter {
 public:
  explicit TextModelWriter(const TextModelOptions& options)
      : options_(options), random_(options.seed) {}

  std::vector<std::byte> write() {
    write_metadata();
    write_vocabulary();
    matrix("token_embd.weight", options_.vocabulary.pieces.size(), kHidden);
    for (int32_t layer = 0; layer < options_.n_layers; ++layer)
      write_layer(fmt::format("blk.{}.", layer));
    norm("output_norm.weight");
    return builder_.build();
  }

 private:
  // Files of the llama architecture pair neighbours, those of qwen2 halves.
  bool neighbours() const { return options_.pairing == RopePairing::kNeighbours; }

  void write_metadata() {
    const std::string architecture = neighbours() ? "llama" : "qwen2";
    const auto key = [&](std::string_view name) {
      return fmt::format("{}.{}", architecture, name);
    };
    builder_.text("general.architecture", architecture)
        .u32(key("block_count"), static_cast<uint32_t>(options_.n_layers))
        .u32(key("context_length"), options_.positions)
        .u32(key("embedding_length"), kHidden)
        .u32(key("feed_forward_length"), kFfn)
        .u32(key("attention.head_count"), kHeads)
        .u32(key("attention.head_count_kv"), options_.kv_heads)
        .f32(key("attention.layer_norm_rms_epsilon"), 1e-6f)
        .f32(key("rope.freq_base"), options_.theta);
  }

  void write_vocabulary() {
    const Vocabulary& vocabulary = options_.vocabulary;
    std::vector<int32_t> kinds;
    for (const TokenKind kind : vocabulary.kinds) kinds.push_back(kind_number(kind));
    builder_.text("tokenizer.ggml.model", vocabulary.model)
        .text("tokenizer.ggml.pre", vocabulary.pre_tokenizer)
        .strings("tokenizer.ggml.tokens", std::span(vocabulary.pieces))
        .strings("tokenizer.ggml.merges", std::span(vocabulary.merges))
        .int32s("tokenizer.ggml.token_type", std::span<const int32_t>(kinds))
        .flag("tokenizer.ggml.add_bos_token", vocabulary.add_bos)
        .text("tokenizer.chat_template", "{{'<|im_start|>' + message['role'] }}<|im_end|>");
    if (vocabulary.bos_id)
      builder_.u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*vocabulary.bos_id));
    if (vocabulary.eos_id)
      builder_.u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*vocabulary.eos_id));
  }

  void write_layer(const std::string& prefix) {
    norm(prefix + "attn_norm.weight");
    rotated_matrix(prefix + "attn_q.weight", kHeads);
    rotated_matrix(prefix + "attn_k.weight", options_.kv_heads);
    matrix(prefix + "attn_v.weight", options_.kv_heads * kHeadDim, kHidden);
    matrix(prefix + "attn_output.weight", kHidden, kHeads * kHeadDim);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", kFfn, kHidden);
    matrix(prefix + "ffn_up.weight", kFfn, kHidden);
    matrix(prefix + "ffn_down.weight", kHidden, kFfn, options_.half_precision);
  }

  std::vector<float> numbers(uint64_t rows, uint64_t cols) {
    std::normal_distribution<float> normal(0, 1.5f / std::sqrt(static_cast<float>(cols)));
    std::vector<float> values(rows * cols);
    for (float& value : values) value = normal(random_);
    return values;
  }

  void matrix(const std::string& name, uint64_t rows, uint64_t cols, bool half = false) {
    const auto values = numbers(rows, cols);
    if (!half) {
      builder_.tensor(name, {cols, rows}, GgufBuilder::kF32, std::as_bytes(std::span(values)));
      return;
    }
    std::vector<uint16_t> halves;
    for (const float value : values) halves.push_back(float_to_half(value));
    builder_.tensor(name, {cols, rows}, GgufBuilder::kF16, std::as_bytes(std::span(halves)));
  }

  void rotated_matrix(const std::string& name, uint64_t heads) {
    const auto halves = numbers(heads * kHeadDim, kHidden);
    std::vector<float> values = halves;
    for (uint64_t row = 0; neighbours() && row < heads * kHeadDim; ++row) {
      const uint64_t i = row % kHeadDim, half = kHeadDim / 2;
      const uint64_t target = row - i + (i < half ? 2 * i : 2 * (i - half) + 1);
      std::copy_n(halves.data() + row * kHidden, kHidden, values.data() + target * kHidden);
    }
    builder_.tensor(name, {kHidden, heads * kHeadDim}, GgufBuilder::kF32,
                    std::as_bytes(std::span(values)));
  }

  void norm(const std::string& name) {
    auto values = numbers(1, kHidden);
    for (float& value : values) value = options_.norm_scale * (1 + value / 4);
    builder_.tensor(name, {kHidden}, GgufBuilder::kF32, std::as_bytes(std::span(values)));
  }

  const TextModelOptions& options_;
  std::mt19937 random_;
  GgufBuilder builder_;
};

}  // namespace

std::vector<std::byte> text_model(const TextModelOptions& options) {
  return TextModelWriter(options).write();
}

}  // namespace suture
