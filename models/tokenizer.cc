#include "models/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sha256.h"
#include "models/byte_level_tokenizer.h"
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

std::vector<int32_t> find_end_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
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
      {"tokenizer.ggml.eot_token_id", vocabulary.eot_id}};
  for (const auto& [key, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= n)) {
      return fail(ErrorCode::kCorrupt, fmt::format("id {} is outside {} tokens", *id, n), key);
    }
  }
  return {};
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      end_ids_(find_end_ids(vocabulary_)),
      vocabulary_hash_(hash_vocabulary(vocabulary_)) {}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
  SUTURE_RETURN_IF_ERROR(check_vocabulary(vocabulary));
  if (vocabulary.model != "gpt2") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tokenizer model \"{}\" is not known", vocabulary.model),
                "tokenizer.ggml.model", "use a model with: gpt2 (byte-level BPE)");
  }
  mark_control_tokens(vocabulary);
  return make_byte_level_tokenizer(std::move(vocabulary));
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
