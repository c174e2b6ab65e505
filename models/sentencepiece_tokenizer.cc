#include "models/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <variant>

#include "models/bpe.h"
#include "models/sentencepiece.h"
#include "models/unicode.h"

namespace suture {
namespace {

// "<0x0A>" is one byte.
std::string byte_of_token(const std::string& piece) {
  uint8_t byte = 0;
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>') {
    const char* end = piece.data() + 5;
    if (std::from_chars(piece.data() + 3, end, byte, 16).ptr == end)
      return std::string(1, static_cast<char>(byte));
  }
  return piece;
}

std::vector<std::string> texts_of(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  texts.reserve(vocabulary.pieces.size());
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    const TokenKind kind = vocabulary.kinds[id];
    texts.push_back(kind == TokenKind::kByte ? byte_of_token(piece)
                    : is_mergeable(kind)     ? marks_to_spaces(piece)
                                             : piece);
  }
  return texts;
}

std::vector<SpecialTokenFinder::Token> mergeable_tokens(const Vocabulary& vocabulary) {
  std::vector<SpecialTokenFinder::Token> tokens;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    if (is_mergeable(vocabulary.kinds[id]) && !piece.empty())
      tokens.push_back({piece, static_cast<int32_t>(id)});
  }
  return tokens;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(Vocabulary vocabulary, std::vector<std::string> texts)
      : Tokenizer(std::move(vocabulary), std::move(texts)),
        pieces_(mergeable_tokens(this->vocabulary())) {}

  Status make_encoder() {
    if (vocabulary().scores.empty()) {
      SUTURE_ASSIGN_OR_RETURN(encoder_,
                              BytePairEncoder::create(vocabulary(), BpeAlphabet::kCharacters));
    } else {
      SUTURE_ASSIGN_OR_RETURN(encoder_, SentencePieceEncoder::create(vocabulary()));
    }
    return {};
  }

 private:
  void encode_segment(std::string_view segment, bool first,
                      std::vector<int32_t>& ids) const override {
    const std::string marked =
        std::string(has_prefix(segment, first) ? kSpaceMark : "") + spaces_to_marks(segment);
    std::visit([&](const auto& encoder) { encoder.encode(marked, ids); }, *encoder_);
  }

  // Nothing merges across a place that no piece could lie across.
  size_t segment_stable_end(std::string_view segment, bool first) const override {
    const std::string_view whole = segment.substr(0, whole_characters(segment));
    const size_t prefix = has_prefix(segment, first) ? kSpaceMark.size() : 0;
    const std::string marked = std::string(prefix == 0 ? "" : kSpaceMark) + spaces_to_marks(whole);
    const size_t end = pieces_.stable_end(marked);
    size_t marked_end = prefix;
    size_t at = 0;
    while (marked_end < end) marked_end += whole[at++] == ' ' ? kSpaceMark.size() : 1;
    return at;
  }

  bool has_prefix(std::string_view segment, bool first) const {
    switch (vocabulary().space_prefix) {
      case SpacePrefix::kNone: return false;
      case SpacePrefix::kEverySegment: return true;
      case SpacePrefix::kEverySegmentUnlessSpace: return !starts_with_space(segment);
      case SpacePrefix::kFirstSegmentUnlessSpace: return first && !starts_with_space(segment);
    }
    return false;
  }
  static bool starts_with_space(std::string_view segment) {
    return segment.starts_with(' ') || segment.starts_with(kSpaceMark);
  }

  SpecialTokenFinder pieces_;
  std::optional<std::variant<SentencePieceEncoder, BytePairEncoder>> encoder_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(Vocabulary vocabulary) {
  if (vocabulary.scores.empty() && vocabulary.merges.empty())
    return fail(ErrorCode::kCorrupt, "the vocabulary has neither scores nor merges",
                "tokenizer.ggml.scores");
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != vocabulary.pieces.size())
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} scores for {} tokens", vocabulary.scores.size(), vocabulary.pieces.size()),
        "tokenizer.ggml.scores");
  auto texts = texts_of(vocabulary);
  auto tokenizer =
      std::make_unique<SentencePieceTokenizer>(std::move(vocabulary), std::move(texts));
  SUTURE_RETURN_IF_ERROR(tokenizer->make_encoder());
  return tokenizer;
}

}  // namespace suture
