#include "models/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/unicode.h"

namespace suture {
namespace {

Result<std::vector<TokenKind>> token_kinds(const GgufFile& file, size_t n_tokens,
                                           const std::string& where) {
  std::vector<TokenKind> kinds(n_tokens, TokenKind::kNormal);
  const GgufValue* value = file.find("tokenizer.ggml.token_type");
  if (value == nullptr) return kinds;
  const auto stored = value->as_int32s();
  if (!stored || stored->size() != n_tokens)
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer.ggml.token_type does not hold {} types", n_tokens), where);
  for (size_t i = 0; i < n_tokens; ++i) {
    const int32_t kind = (*stored)[i];  // counted from 1 in the file
    if (kind < 1 || kind > 6)
      return fail(ErrorCode::kCorrupt, fmt::format("token {} has unknown type {}", i, kind), where);
    kinds[i] = static_cast<TokenKind>(kind - 1);
  }
  return kinds;
}

Result<std::optional<int32_t>> token_id(const GgufFile& file, std::string_view key, size_t n_tokens,
                                        const std::string& where) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  const auto id = value->as_unsigned();
  if (!id || *id >= n_tokens)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} is {}, expected an id below {}", key, printable(value->text()), n_tokens),
        where);
  return static_cast<int32_t>(*id);
}

std::vector<std::string> strings_of(const GgufValue* value) {
  if (value == nullptr) return {};
  const auto strings = value->as_strings().value_or(std::vector<std::string_view>{});
  return {strings.begin(), strings.end()};
}

std::string string_of(const GgufValue* value) {
  return std::string(value == nullptr ? "" : value->as_string().value_or(""));
}

bool flag_of(const GgufValue* value, bool fallback) {
  return value == nullptr ? fallback : value->as_bool().value_or(fallback);
}

// The file does not say it: as in llama.cpp, a word of these that is a token needs no merges.
constexpr std::array<std::string_view, 3> kLlama3PreTokenizers = {"llama-bpe", "llama3",
                                                                  "llama-v3"};

// Phi-3 was trained with the line end behind "<|user|>" and the like left out, which the original
// tokenizer says of each token and the file does not.
std::vector<int32_t> phi3_stripping_tokens(const Vocabulary& vocabulary) {
  constexpr std::array<std::string_view, 3> kKeepSpaces = {"<unk>", "<s>", "<|endoftext|>"};
  std::vector<int32_t> ids;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    const bool cut_out = kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
    if (cut_out && std::ranges::count(kKeepSpaces, vocabulary.pieces[id]) == 0)
      ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace

Result<Vocabulary> read_gguf_vocabulary(const GgufFile& file, int32_t vocab_size,
                                        const std::string& where) {
  Vocabulary vocabulary;
  vocabulary.model = string_of(file.find("tokenizer.ggml.model"));
  vocabulary.pieces = strings_of(file.find("tokenizer.ggml.tokens"));
  const size_t n_tokens = vocabulary.pieces.size();
  if (vocabulary.model.empty() || n_tokens == 0)
    return fail(ErrorCode::kNotFound, "the file carries no tokenizer", where,
                "use a file that has one, or give token ids");
  if (n_tokens > static_cast<size_t>(vocab_size))
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} tokens for an embedding of {} rows", n_tokens, vocab_size), where);
  vocabulary.pre_tokenizer = string_of(file.find("tokenizer.ggml.pre"));
  SUTURE_ASSIGN_OR_RETURN(vocabulary.kinds, token_kinds(file, n_tokens, where));
  if (const GgufValue* scores = file.find("tokenizer.ggml.scores")) {
    vocabulary.scores = scores->as_floats().value_or(std::vector<float>{});
    if (vocabulary.scores.size() != n_tokens)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tokenizer.ggml.scores does not hold {} scores", n_tokens), where);
  }
  vocabulary.merges = strings_of(file.find("tokenizer.ggml.merges"));
  const auto id = [&](std::string_view key) { return token_id(file, key, n_tokens, where); };
  SUTURE_ASSIGN_OR_RETURN(vocabulary.bos_id, id("tokenizer.ggml.bos_token_id"));
  SUTURE_ASSIGN_OR_RETURN(vocabulary.eos_id, id("tokenizer.ggml.eos_token_id"));
  SUTURE_ASSIGN_OR_RETURN(vocabulary.eot_id, id("tokenizer.ggml.eot_token_id"));
  SUTURE_ASSIGN_OR_RETURN(vocabulary.unk_id, id("tokenizer.ggml.unknown_token_id"));
  const bool sentencepiece = vocabulary.model == "llama";
  const bool llama3 = std::ranges::count(kLlama3PreTokenizers, vocabulary.pre_tokenizer) > 0;
  vocabulary.whole_words = llama3;
  if (sentencepiece && flag_of(file.find("tokenizer.ggml.add_space_prefix"), true))
    vocabulary.space_prefix = SpacePrefix::kEverySegment;
  if (sentencepiece && string_of(file.find("general.architecture")) == "phi3")
    vocabulary.strip_after = phi3_stripping_tokens(vocabulary);
  // Texts of these begin with BOS unless the file says otherwise.
  vocabulary.add_bos = flag_of(file.find("tokenizer.ggml.add_bos_token"), sentencepiece || llama3);
  vocabulary.add_eos = flag_of(file.find("tokenizer.ggml.add_eos_token"), false);
  vocabulary.chat_template = string_of(file.find("tokenizer.chat_template"));
  return vocabulary;
}

}  // namespace suture
