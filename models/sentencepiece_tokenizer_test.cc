#include "models/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "models/bpe.h"
#include "models/sentencepiece.h"

namespace suture {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kUnknown = 0;
constexpr int32_t kBegin = 1;
constexpr int32_t kBytes = 2;  // 256 of them
constexpr int32_t kFirstPiece = 258;

struct Piece {
  const char* text;
  float score;
  TokenKind kind = TokenKind::kNormal;
};

// "<unk>", "<s>", the bytes, then `pieces`.
Vocabulary make_vocabulary(const std::vector<Piece>& pieces) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  const auto add = [&](const std::string& text, float score, TokenKind kind) {
    vocabulary.pieces.push_back(text);
    vocabulary.scores.push_back(score);
    vocabulary.kinds.push_back(kind);
  };
  add("<unk>", 0, TokenKind::kUnknown);
  add("<s>", 0, TokenKind::kControl);
  for (int byte = 0; byte < 256; ++byte)
    add(byte_token_name(static_cast<uint8_t>(byte)), 0, TokenKind::kByte);
  for (const Piece& piece : pieces) add(piece.text, piece.score, piece.kind);
  vocabulary.unk_id = kUnknown;
  vocabulary.bos_id = kBegin;
  return vocabulary;
}

// ids from kFirstPiece: a b ab ba ▁ ▁a <x> aa
Vocabulary small_vocabulary() {
  return make_vocabulary({{"a", -10},
                          {"b", -10},
                          {"ab", -2},
                          {"ba", -1},
                          {"\u2581", -10},
                          {"\u2581a", -3},
                          {"<x>", 0, TokenKind::kUserDefined}});
}
constexpr int32_t kA = kFirstPiece;
constexpr int32_t kB = kFirstPiece + 1;
constexpr int32_t kBa = kFirstPiece + 3;
constexpr int32_t kSpace = kFirstPiece + 4;
constexpr int32_t kSpaceA = kFirstPiece + 5;
constexpr int32_t kX = kFirstPiece + 6;

std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary = small_vocabulary()) {
  auto tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, SpecialTokens::kAsText);
}

TEST(SentencePieceTest, BestScoreIsFormedFirst) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(encode(*tokenizer, "aba"), (Ids{kA, kBa}));
  EXPECT_EQ(encode(*tokenizer, "ab"), Ids{kFirstPiece + 2});
  EXPECT_EQ(encode(*tokenizer, "b a"), (Ids{kB, kSpaceA}));
  EXPECT_EQ(encode(*tokenizer, ""), Ids{});
}

TEST(SentencePieceTest, CharactersThatAreNoPieceBecomeBytes) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(encode(*tokenizer, "a\u00E9\xFF"),
            (Ids{kA, kBytes + 0xC3, kBytes + 0xA9, kBytes + 0xFF}));
  Vocabulary without = small_vocabulary();
  for (size_t byte = 0; byte < 256; ++byte)
    without.kinds[size_t{kBytes} + byte] = TokenKind::kUnused;
  EXPECT_EQ(encode(*make_tokenizer(without), "a\u00E9"), (Ids{kA, kUnknown}));
}

TEST(SentencePieceTest, SpaceRulesAreTheVocabularys) {
  const auto ids = [](SpacePrefix rule, std::string_view text) {
    Vocabulary vocabulary = small_vocabulary();
    vocabulary.space_prefix = rule;
    return encode(*make_tokenizer(vocabulary), text);
  };
  EXPECT_EQ(ids(SpacePrefix::kNone, "a<x>a"), (Ids{kA, kX, kA}));
  EXPECT_EQ(ids(SpacePrefix::kEverySegment, "a<x> a"), (Ids{kSpaceA, kX, kSpace, kSpaceA}));
  EXPECT_EQ(ids(SpacePrefix::kEverySegmentUnlessSpace, "a<x> a<x>a"),
            (Ids{kSpaceA, kX, kSpaceA, kX, kSpaceA}));
  EXPECT_EQ(ids(SpacePrefix::kFirstSegmentUnlessSpace, "a<x>a"), (Ids{kSpaceA, kX, kA}));
  EXPECT_EQ(ids(SpacePrefix::kFirstSegmentUnlessSpace, "\u2581a"), Ids{kSpaceA});
}

TEST(SentencePieceTest, TokensThatStripSwallowWhiteSpaceBehindThem) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.strip_after = {kX};
  EXPECT_EQ(encode(*make_tokenizer(vocabulary), " <x> \n a"), (Ids{kSpace, kX, kA}));
  EXPECT_EQ(encode(*make_tokenizer(vocabulary), "<x> \n"), Ids{kX});
}

TEST(SentencePieceTest, TextNeverFormsAControlToken) {
  const auto tokenizer = make_tokenizer(make_vocabulary({{"<", 0}, {"s>", 0}, {"s", 0}, {">", 0}}));
  EXPECT_EQ(encode(*tokenizer, "<s>"), (Ids{kFirstPiece, kFirstPiece + 1}));
  EXPECT_EQ(tokenizer->encode("<s>", SpecialTokens::kParse), Ids{kBegin});
}

TEST(SentencePieceTest, PiecesAreTextAndStreamWholeCharacters) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->piece(kSpaceA), " a");
  EXPECT_EQ(tokenizer->piece(kBytes + 0x0A), "\n");
  EXPECT_EQ(tokenizer->piece(kBegin), "");
  EXPECT_EQ(tokenizer->piece(kBegin, true), "<s>");
  StreamingDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(kBytes + 0xC3), "");
  EXPECT_EQ(decoder.push(kBytes + 0xA9), "\u00E9");
}

TEST(SentencePieceTest, StableEndIsWhereNoPieceCouldLieAcross) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->stable_end(""), 0u);
  EXPECT_EQ(tokenizer->stable_end("bb"), 1u);
  EXPECT_EQ(tokenizer->stable_end("b "), 1u);
  EXPECT_EQ(tokenizer->stable_end("a c"), 3u);
  EXPECT_EQ(tokenizer->stable_end("c\xC3"), 1u);
  EXPECT_EQ(tokenizer->stable_end("c<x"), 1u);
  Vocabulary prefixed = small_vocabulary();
  prefixed.space_prefix = SpacePrefix::kEverySegment;
  EXPECT_EQ(make_tokenizer(prefixed)->stable_end("a"), 0u);
  EXPECT_EQ(make_tokenizer(prefixed)->stable_end("ac c"), 4u);
}

// The definition, word for word: as long as any neighbours form a piece, form the best.
Ids encode_naively(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> symbols;
  for (char c : text) symbols.emplace_back(1, c);
  const auto find = [&](const std::string& piece) {
    return std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), piece) -
           vocabulary.pieces.begin();
  };
  for (;;) {
    float best = -std::numeric_limits<float>::infinity();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto id = static_cast<size_t>(find(symbols[i] + symbols[i + 1]));
      if (id < vocabulary.pieces.size() && vocabulary.scores[id] > best) {
        best = vocabulary.scores[id];
        best_at = i;
      }
    }
    if (best == -std::numeric_limits<float>::infinity()) break;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    const auto id = static_cast<int32_t>(find(symbol));
    ids.push_back(id < std::ssize(vocabulary.pieces) ? id : kBytes + symbol[0]);
  }
  return ids;
}

class RandomSentencePieceTest : public testing::Test {
 protected:
  RandomSentencePieceTest() {
    for (int i = 0; i < 60; ++i) texts_.push_back(random_text(1 + random_() % 4));
    std::vector<Piece> pieces;
    for (const std::string& text : texts_)
      pieces.push_back({text.c_str(), static_cast<float>(random_() % 20)});
    vocabulary_ = make_vocabulary(pieces);
  }
  std::string random_text(size_t length) {
    std::string text(length, 'a');
    for (char& c : text) c = static_cast<char>('a' + random_() % 5);
    return text;
  }

  std::mt19937 random_{3};
  std::vector<std::string> texts_;
  Vocabulary vocabulary_;
};

TEST_F(RandomSentencePieceTest, MatchesTheDefinition) {
  const auto tokenizer = make_tokenizer(vocabulary_);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random_() % 40);
    ASSERT_EQ(encode(*tokenizer, text), encode_naively(vocabulary_, text)) << text;
  }
}

TEST_F(RandomSentencePieceTest, NoTokenBeforeTheStableEndChanges) {
  const auto tokenizer = make_tokenizer(vocabulary_);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random_() % 20);
    const std::string longer = text + random_text(random_() % 20);
    const size_t end = tokenizer->stable_end(text);
    ASSERT_LE(end, tokenizer->stable_end(longer)) << text << "|" << longer;
    const Ids ids = encode(*tokenizer, std::string_view(text).substr(0, end));
    const Ids all = encode(*tokenizer, longer);
    ASSERT_LE(ids.size(), all.size());
    ASSERT_TRUE(std::equal(ids.begin(), ids.end(), all.begin())) << text << "|" << longer;
  }
}

// A quadratic algorithm would need hours for these.
TEST(SentencePieceTest, MegabytesWithoutABreakAreEncoded) {
  const auto tokenizer = make_tokenizer(make_vocabulary({{"a", 0}, {"aa", 1}, {"aaaa", 2}}));
  EXPECT_EQ(encode(*tokenizer, std::string(1 << 20, 'a')), Ids(1 << 18, kFirstPiece + 2));
  EXPECT_EQ(encode(*tokenizer, std::string(1 << 20, '\xFF')), Ids(1 << 20, kBytes + 0xFF));
}

TEST(SentencePieceTest, DamagedVocabulariesAreRefused) {
  const auto refused = [](const Vocabulary& vocabulary) {
    const auto tokenizer = Tokenizer::create(vocabulary);
    return !tokenizer && tokenizer.error().code == ErrorCode::kCorrupt;
  };
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.scores.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(vocabulary));
  vocabulary.scores.pop_back();
  EXPECT_TRUE(refused(vocabulary));
  vocabulary.scores.clear();
  EXPECT_TRUE(refused(vocabulary));
  vocabulary = small_vocabulary();
  vocabulary.unk_id = 1000;
  EXPECT_TRUE(refused(vocabulary));
}

}  // namespace
}  // namespace suture
