#include "models/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sha256.h"
#include "models/byte_level_tokenizer.h"
#include "models/sentencepiece_tokenizer.h"
#include "models/unicode.h"

namespace suture {
namespace {

// Names that end a text or a turn in whatever model has them. Some files list one of them as an
// ordinary token; llama.cpp makes control tokens of them, and the same text must give the same ids.
constexpr std::array<std::string_view, 9> kControlNames = {
    "<|im_end|>", "<|endoftext|>", "<|end|>", "<end_of_turn>",     "<|eot_id|>",
    "</s>",       "<|eom_id|>",    "<EOT>",   "<end_of_utterance>"};
// Of those, what ends generation beside the file's own eos and eot.
constexpr size_t kEndNames = 5;

void mark_control_tokens(Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const auto& name = vocabulary.pieces[id];
    if (std::find(kControlNames.begin(), kControlNames.end(), name) != kControlNames.end()) {
      vocabulary.kinds[id] = TokenKind::kControl;
    }
  }
}

std::vector<SpecialTokenFinder::Token> tokens_of_kinds(const Vocabulary& vocabulary,
                                                       std::initializer_list<TokenKind> kinds) {
  std::vector<SpecialTokenFinder::Token> tokens;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const bool wanted = std::find(kinds.begin(), kinds.end(), vocabulary.kinds[id]) != kinds.end();
    if (wanted && !vocabulary.pieces[id].empty())
      tokens.push_back({vocabulary.pieces[id], static_cast<int32_t>(id)});
  }
  return tokens;
}

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::vector<int32_t> find_end_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids = vocabulary.end_ids;
  if (vocabulary.eos_id) ids.push_back(*vocabulary.eos_id);
  if (vocabulary.eot_id) ids.push_back(*vocabulary.eot_id);
  const auto end = kControlNames.begin() + kEndNames;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.kinds[id] == TokenKind::kControl &&
        std::find(kControlNames.begin(), end, vocabulary.pieces[id]) != end) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void hash_number(Sha256& hash, uint64_t value) {
  std::array<std::byte, 8> little_endian;
  for (size_t i = 0; i < 8; ++i) little_endian[i] = static_cast<std::byte>(value >> (8 * i));
  hash.update(little_endian);
}

std::string hash_vocabulary(const Vocabulary& vocabulary) {
  Sha256 hash;
  hash_number(hash, vocabulary.pieces.size());
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
    // The length keeps neighbours apart; its lowest bit says whether the id is special.
    hash_number(hash, vocabulary.pieces[id].size() << 1 | (special ? 1 : 0));
    hash.update(vocabulary.pieces[id]);
  }
  return hash.finish();
}

Status check_vocabulary(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.pieces.size();
  if (n == 0) return fail(ErrorCode::kCorrupt, "the vocabulary is empty", "tokenizer.ggml.tokens");
  if (vocabulary.kinds.size() != n) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} token types for {} tokens", vocabulary.kinds.size(), n),
                "tokenizer.ggml.token_type");
  }
  const std::pair<const char*, std::optional<int32_t>> ids[] = {
      {"tokenizer.ggml.bos_token_id", vocabulary.bos_id},
      {"tokenizer.ggml.eos_token_id", vocabulary.eos_id},
      {"tokenizer.ggml.eot_token_id", vocabulary.eot_id},
      {"tokenizer.ggml.unknown_token_id", vocabulary.unk_id}};
  for (const auto& [key, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= n)) {
      return fail(ErrorCode::kCorrupt, fmt::format("id {} is outside {} tokens", *id, n), key);
    }
  }
  return {};
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, std::vector<std::string> texts)
    : vocabulary_(std::move(vocabulary)),
      texts_(std::move(texts)),
      in_text_(tokens_of_kinds(vocabulary_, {TokenKind::kUserDefined})),
      parsed_(tokens_of_kinds(vocabulary_,
                              {TokenKind::kUserDefined, TokenKind::kControl, TokenKind::kUnknown})),
      end_ids_(find_end_ids(vocabulary_)),
      vocabulary_hash_(hash_vocabulary(vocabulary_)) {}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
  SUTURE_RETURN_IF_ERROR(check_vocabulary(vocabulary));
  mark_control_tokens(vocabulary);
  if (vocabulary.model == "gpt2") return make_byte_level_tokenizer(std::move(vocabulary));
  if (vocabulary.model == "llama") return make_sentencepiece_tokenizer(std::move(vocabulary));
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer model \"{}\" is not known", printable(vocabulary.model)),
              "tokenizer.ggml.model",
              "use a model with one of: gpt2 (byte-level BPE), llama (SentencePiece)");
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  const auto& finder = special == SpecialTokens::kParse ? parsed_ : in_text_;
  size_t begin = 0;
  const auto encode_until = [&](size_t end) {
    if (begin < end) encode_segment(text.substr(begin, end - begin), begin == 0, ids);
  };
  for (const SpecialTokenFinder::Occurrence& token : finder.find(text)) {
    encode_until(token.begin);
    ids.push_back(token.id);
    begin = segment_begin(text, token);
  }
  encode_until(text.size());
  return ids;
}

size_t Tokenizer::stable_end(std::string_view text) const {
  const std::string_view certain = text.substr(0, in_text_.stable_end(text));
  const auto tokens = in_text_.find(certain);
  const size_t begin = tokens.empty() ? 0 : segment_begin(certain, tokens.back());
  if (begin == certain.size()) return begin;
  return begin + segment_stable_end(certain.substr(begin), begin == 0);
}

size_t Tokenizer::segment_begin(std::string_view text,
                                const SpecialTokenFinder::Occurrence& token) const {
  size_t begin = token.begin + token.length;
  if (std::ranges::binary_search(vocabulary_.strip_after, token.id))
    while (begin < text.size() && is_ascii_space(text[begin])) ++begin;
  return begin;
}

std::string_view Tokenizer::piece(int32_t id, bool control_names) const {
  if (id < 0 || id >= vocab_size()) return {};
  const TokenKind kind = vocabulary_.kinds[static_cast<size_t>(id)];
  const bool is_text =
      kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kByte;
  if (!is_text && !control_names) return {};
  return texts_[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += piece(id);
  return text;
}

bool Tokenizer::is_end(int32_t id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

std::string StreamingDecoder::push(int32_t id) {
  std::string text;
  pending_ += tokenizer_.piece(id);
  drain_valid_utf8(pending_, text);
  return text;
}

std::string StreamingDecoder::finish() {
  const bool unfinished = !pending_.empty();
  pending_.clear();
  return unfinished ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace suture
