// A tokenizer as the file describes it, before it is made to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace suture {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// SentencePiece-style tokenizers write a space as U+2581, and may put one in front of a text.
enum class SpacePrefix : uint8_t {
  kNone,
  kEverySegment,  // in front of the text, and after each token that is cut out of it
  kEverySegmentUnlessSpace,
  kFirstSegmentUnlessSpace,
};

struct Vocabulary {
  std::string model;                // "gpt2" (byte-level BPE), "llama" (SentencePiece), ...
  std::string pre_tokenizer;        // GGUF's tokenizer.ggml.pre: "qwen2", "smollm", ...
  std::vector<std::string> pieces;  // [vocab] as stored (byte-level alphabet for gpt2)
  std::vector<TokenKind> kinds;     // [vocab]
  // "llama" has scores [vocab] or merges, "gpt2" always merges: "left right", best first.
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> eot_id;  // end of turn, where it differs from eos
  std::vector<int32_t> end_ids;   // what ends generation beside these
  std::optional<int32_t> unk_id;
  // A word that is a token as a whole becomes that token, whatever the merges say.
  bool whole_words = false;
  SpacePrefix space_prefix = SpacePrefix::kNone;
  std::vector<int32_t> strip_after;  // tokens that swallow the white space behind them
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;  // Jinja source, may be empty
};

}  // namespace suture
