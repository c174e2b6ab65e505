#include "models/byte_level_tokenizer.h"

#include <algorithm>
#include <utility>

#include "models/bpe.h"
#include "models/pre_tokenizer.h"
#include "models/special_tokens.h"

namespace suture {
namespace {

std::vector<SpecialTokenFinder::Token> tokens_of_kinds(const Vocabulary& vocabulary,
                                                       std::initializer_list<TokenKind> kinds) {
  std::vector<SpecialTokenFinder::Token> tokens;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const bool wanted = std::find(kinds.begin(), kinds.end(), vocabulary.kinds[id]) != kinds.end();
    if (wanted && !vocabulary.pieces[id].empty()) {
      tokens.push_back({vocabulary.pieces[id], static_cast<int32_t>(id)});
    }
  }
  return tokens;
}

class ByteLevelTokenizer final : public Tokenizer {
 public:
  ByteLevelTokenizer(Vocabulary vocabulary, PreTokenizer pre_tokenizer, BytePairEncoder encoder)
      : Tokenizer(std::move(vocabulary)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        encoder_(std::move(encoder)),
        in_text_(tokens_of_kinds(this->vocabulary(), {TokenKind::kUserDefined})),
        parsed_(tokens_of_kinds(this->vocabulary(), {TokenKind::kUserDefined, TokenKind::kControl,
                                                     TokenKind::kUnknown})) {
    const Vocabulary& words = this->vocabulary();
    texts_.reserve(words.pieces.size());
    for (size_t id = 0; id < words.pieces.size(); ++id) {
      const bool in_alphabet = words.kinds[id] == TokenKind::kNormal;
      texts_.push_back(in_alphabet ? alphabet_to_bytes(words.pieces[id]) : words.pieces[id]);
    }
  }

  std::vector<int32_t> encode(std::string_view text, SpecialTokens special) const override {
    std::vector<int32_t> ids;
    const auto& finder = special == SpecialTokens::kParse ? parsed_ : in_text_;
    size_t done = 0;
    for (const SpecialTokenFinder::Occurrence& token : finder.find(text)) {
      encode_plain(text.substr(done, token.begin - done), ids);
      ids.push_back(token.id);
      done = token.begin + token.length;
    }
    encode_plain(text.substr(done), ids);
    return ids;
  }

  size_t stable_end(std::string_view text) const override {
    const std::string_view certain = text.substr(0, in_text_.stable_end(text));
    const auto tokens = in_text_.find(certain);
    const size_t plain = tokens.empty() ? 0 : tokens.back().begin + tokens.back().length;
    return plain + pre_tokenizer_.stable_end(certain.substr(plain));
  }

  std::string_view piece(int32_t id, bool control_names) const override {
    if (id < 0 || id >= vocab_size()) return {};
    const TokenKind kind = vocabulary().kinds[static_cast<size_t>(id)];
    const bool is_text = kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
    if (!is_text && !control_names) return {};
    return texts_[static_cast<size_t>(id)];
  }

 private:
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    for (std::string_view word : pre_tokenizer_.split(text)) encoder_.encode(word, ids);
  }

  PreTokenizer pre_tokenizer_;
  BytePairEncoder encoder_;
  SpecialTokenFinder in_text_;      // what ordinary text may contain
  SpecialTokenFinder parsed_;       // and with SpecialTokens::kParse
  std::vector<std::string> texts_;  // [vocab] bytes of each piece
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_byte_level_tokenizer(Vocabulary vocabulary) {
  SUTURE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                          PreTokenizer::create(vocabulary.pre_tokenizer));
  SUTURE_ASSIGN_OR_RETURN(BytePairEncoder encoder, BytePairEncoder::create(vocabulary));
  return std::make_unique<ByteLevelTokenizer>(std::move(vocabulary), std::move(pre_tokenizer),
                                              std::move(encoder));
}

}  // namespace suture
