// A tokenizer as the file describes it, before it is made to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace suture {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Vocabulary {
  std::string model;                // "gpt2" (byte-level BPE), "llama" (SentencePiece), ...
  std::string pre_tokenizer;        // GGUF's tokenizer.ggml.pre: "qwen2", "smollm", ...
  std::vector<std::string> pieces;  // [vocab] as stored (byte-level alphabet for gpt2)
  std::vector<TokenKind> kinds;     // [vocab]
  std::vector<float> scores;        // [vocab] or empty
  std::vector<std::string> merges;  // "left right", best first
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> eot_id;  // end of turn, where it differs from eos
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;  // Jinja source, may be empty
};

}  // namespace suture
