#include "models/test_quantised_model.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>

#include "kernels/cpu/half.h"
#include "models/test_gguf_builder.h"

namespace suture {
namespace {

constexpr uint64_t kHidden = 256, kHeadDim = 64, kHeads = 4, kKvHeads = 2, kFfn = 256, kVocab = 96;

// Any bytes are weights; only the halves that scale them have to be of a sensible size.
struct BlockFormat {
  uint32_t type;  // ggml's id
  uint64_t elements;
  size_t bytes;
  struct Half {
    size_t offset;
    float value;
  } halves[2];
};
constexpr BlockFormat kQ4_0 = {2, 32, 18, {{0, 0.01f}, {0, 0.01f}}};
constexpr BlockFormat kQ8_0 = {8, 32, 34, {{0, 6e-4f}, {0, 6e-4f}}};
constexpr BlockFormat kQ4_K = {12, 256, 144, {{0, 1e-4f}, {2, 7.5e-4f}}};
constexpr BlockFormat kQ6_K = {14, 256, 210, {{208, 4e-5f}, {208, 4e-5f}}};

class Writer {
 public:
  std::vector<std::byte> write() {
    write_metadata();
    matrix("token_embd.weight", kVocab, kHidden, kQ4_0);
    matrix("output.weight", kVocab, kHidden, kQ6_K);
    norm("output_norm.weight");
    write_layer("blk.0.", kQ4_K);
    write_layer("blk.1.", kQ4_0);
    return builder_.build();
  }

 private:
  void write_metadata() {
    builder_.text("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .u32("llama.context_length", 1024)
        .u32("llama.embedding_length", kHidden)
        .u32("llama.feed_forward_length", kFfn)
        .u32("llama.attention.head_count", kHeads)
        .u32("llama.attention.head_count_kv", kKvHeads)
        .u32("llama.vocab_size", kVocab)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  }

  void write_layer(const std::string& prefix, const BlockFormat& format) {
    norm(prefix + "attn_norm.weight");
    matrix(prefix + "attn_q.weight", kHeads * kHeadDim, kHidden, format);
    matrix(prefix + "attn_k.weight", kKvHeads * kHeadDim, kHidden, format);
    matrix(prefix + "attn_v.weight", kKvHeads * kHeadDim, kHidden, kQ6_K);
    matrix(prefix + "attn_output.weight", kHidden, kHeads * kHeadDim, format);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", kFfn, kHidden, format);
    matrix(prefix + "ffn_up.weight", kFfn, kHidden, format);
    matrix(prefix + "ffn_down.weight", kHidden, kFfn, kQ8_0);
  }

  void matrix(const std::string& name, uint64_t rows, uint64_t cols, const BlockFormat& format) {
    std::vector<std::byte> data(rows * cols / format.elements * format.bytes);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random_());
    for (size_t block = 0; block < data.size(); block += format.bytes) {
      for (const auto& [offset, value] : format.halves) {
        const uint16_t half = float_to_half(value);
        std::memcpy(data.data() + block + offset, &half, sizeof(half));
      }
    }
    builder_.tensor(name, {cols, rows}, format.type, data);
  }

  void norm(const std::string& name) {
    const std::vector<float> ones(kHidden, 1.0f);
    builder_.tensor(name, {kHidden}, GgufBuilder::kF32, std::as_bytes(std::span(ones)));
  }

  std::mt19937 random_{5};
  GgufBuilder builder_;
};

}  // namespace

std::vector<std::byte> quantised_llama() { return Writer().write(); }

}  // namespace suture
