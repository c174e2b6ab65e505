#include "fusion/token_pairing.h"

#include <gtest/gtest.h>

#include "models/test_vocabulary.h"

namespace suture {
namespace {

std::unique_ptr<Tokenizer> tokenizer_of(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer);
  return std::move(*tokenizer);
}

using Ends = std::vector<int64_t>;

TEST(PairByEnds, TakesOnlyTokensThatEndTogether) {
  const auto pairs = pair_by_ends(Ends{1, 3, 4, 8, 9}, Ends{2, 3, 8, 9, 11}, 0);
  EXPECT_EQ(pairs, (std::vector<TokenPair>{{1, 1}, {3, 2}, {4, 3}}));
}

TEST(PairByEnds, LeavesOutTheFirstTokensOfBoth) {
  EXPECT_EQ(pair_by_ends(Ends{1, 2, 3, 4}, Ends{3, 4}, 1), (std::vector<TokenPair>{{3, 1}}));
  EXPECT_EQ(pair_by_ends(Ends{3, 4}, Ends{1, 2, 3, 4}, 1), (std::vector<TokenPair>{{1, 3}}));
  EXPECT_TRUE(pair_by_ends(Ends{1, 2}, Ends{1, 2}, 4).empty());
}

TEST(TokenEnds, AreThoseOfThePieces) {
  const auto words = tokenizer_of(make_byte_vocabulary({"t h", "th e", "i n"}));
  const std::string text = "the in the";
  const auto ids = words->encode(text, SpecialTokens::kAsText);
  const Ends ends = token_ends(*words, ids, text);
  ASSERT_EQ(ends.size(), ids.size());
  int64_t end = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(ends[i], end += std::ssize(words->piece(ids[i])));
  EXPECT_EQ(ends.back(), 10);
  EXPECT_EQ(ends.front(), 3);
}

TEST(TokenEnds, StopWhereTheTokensAreNotTheText) {
  const auto bytes = tokenizer_of(make_byte_vocabulary({}));
  const auto ids = bytes->encode("abcd", SpecialTokens::kAsText);
  EXPECT_EQ(token_ends(*bytes, ids, "abXd"), (Ends{1, 2}));
}

TEST(PairTokens, OneToOneInTheSameVocabularyElsewhereByBytes) {
  const auto bytes = tokenizer_of(make_byte_vocabulary({}));
  const auto words = tokenizer_of(make_byte_vocabulary({"t h", "th e", "i n"}));
  const std::string text = "the in";
  const auto long_ids = reading_of(*bytes, text, 100);
  const auto short_ids = reading_of(*words, text, 100);
  EXPECT_EQ(pair_tokens(*bytes, long_ids, *bytes, long_ids, text, 4),
            (std::vector<TokenPair>{{4, 4}, {5, 5}}));
  const auto pairs = pair_tokens(*bytes, long_ids, *words, short_ids, text, 0);
  ASSERT_FALSE(pairs.empty());
  EXPECT_EQ(pairs.front(), (TokenPair{2, 0}));  // "the"
  const Ends long_ends = token_ends(*bytes, long_ids, text);
  const Ends short_ends = token_ends(*words, short_ids, text);
  for (const auto& [source, target] : pairs)
    EXPECT_EQ(long_ends[static_cast<size_t>(source)], short_ends[static_cast<size_t>(target)]);
}

TEST(ReadingOf, BeginsWithTheBeginningOfTextAndEndsInTime) {
  Vocabulary vocabulary = make_byte_vocabulary({}, {{"<s>", TokenKind::kControl}});
  vocabulary.bos_id = static_cast<int32_t>(vocabulary.pieces.size()) - 1;
  vocabulary.add_bos = true;
  const int32_t bos = *vocabulary.bos_id;
  const auto tokenizer = tokenizer_of(std::move(vocabulary));
  const auto ids = reading_of(*tokenizer, "abcd", 3);
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids.front(), bos);
  EXPECT_EQ(token_ends(*tokenizer, ids, "abcd"), (Ends{0, 1, 2}));
}

TEST(LastEnded, IsTheSourceTokenThatEndsThereOrLastBefore) {
  const Ends source = {2, 3, 7};
  EXPECT_EQ(last_ended(source, Ends{1, 2, 4, 6, 7, 9}), (std::vector<int32_t>{0, 1, 1, 2, 2}));
  EXPECT_TRUE(last_ended(source, Ends{1}).empty());
  EXPECT_TRUE(last_ended({}, Ends{5}).empty());
}

}  // namespace
}  // namespace suture
