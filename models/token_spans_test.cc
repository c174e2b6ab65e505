#include "models/token_spans.h"

#include <gtest/gtest.h>

#include "models/test_vocabulary.h"

namespace suture {
namespace {

class TokenSpansTest : public testing::Test {
 protected:
  // "the" and " the" are tokens; the rest is spelled byte by byte.
  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::create(make_byte_vocabulary({"t h", "th e", "\u0120 the"},
                                             {{"<|im_end|>", TokenKind::kControl}}))
          .value();
  std::vector<TokenSpan> spans(std::string_view text, std::string_view word) const {
    return spans_of_word(*tokenizer_, tokenizer_->encode(text, SpecialTokens::kParse), word);
  }
};

using Spans = std::vector<TokenSpan>;

TEST_F(TokenSpansTest, AreAllTokensThatShareAByteWithTheWord) {
  EXPECT_EQ(tokenizer_->encode("in the sea", SpecialTokens::kAsText).size(), 7u);
  EXPECT_EQ(spans("in the sea", "the"), (Spans{{2, 3}}));
  EXPECT_EQ(spans("in the sea", "he s"), (Spans{{2, 5}}));
  EXPECT_EQ(spans("in the sea", "sea"), (Spans{{4, 7}}));
  EXPECT_EQ(spans("in the sea", "in"), (Spans{{0, 2}}));
  EXPECT_EQ(spans("in the sea", "The"), Spans());
  EXPECT_EQ(spans("", "sea"), Spans());
}

TEST_F(TokenSpansTest, EveryOccurrenceCountsAndNoTokenTwice) {
  EXPECT_EQ(spans("a b a b", "a"), (Spans{{0, 1}, {4, 5}}));
  EXPECT_EQ(spans("aaaa", "aa"), (Spans{{0, 4}}));
  EXPECT_EQ(spans("xthexthe", "e"), (Spans{{1, 2}, {3, 4}}));
  EXPECT_EQ(spans("\xe6\xb5\xb7 and \xe6\xb5\xb7", "\xe6\xb5\xb7"), (Spans{{0, 3}, {8, 11}}));
}

TEST_F(TokenSpansTest, NoWordGoesAcrossAControlToken) {
  EXPECT_EQ(spans("se<|im_end|>a", "sea"), Spans());
  EXPECT_EQ(spans("se<|im_end|>a", "a"), (Spans{{3, 4}}));
  EXPECT_EQ(spans("<|im_end|>", "im_end"), Spans());
}

}  // namespace
}  // namespace suture
