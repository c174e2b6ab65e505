#include "fusion/token_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/test_alignment.h"
#include "models/bpe.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kLetterA = 'a', kSpace = ' ';

std::unique_ptr<Tokenizer> tokenizer(Vocabulary vocabulary) {
  auto made = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

// Bytes only, and the control tokens <s> (256) and <end> (257).
std::unique_ptr<Tokenizer> bytes_tokenizer() {
  return tokenizer(
      make_byte_vocabulary({}, {{"<s>", TokenKind::kControl}, {"<end>", TokenKind::kControl}}));
}

// "ab" (256), "abab" (257), " ab" (258) besides the bytes, and <end> (259).
std::unique_ptr<Tokenizer> pairs_tokenizer(bool add_bos = false) {
  Vocabulary vocabulary =
      make_byte_vocabulary({"a b", "ab ab", "\u0120 ab"}, {{"<end>", TokenKind::kControl}});
  vocabulary.add_bos = add_bos;
  if (add_bos) vocabulary.bos_id = 259;
  return tokenizer(std::move(vocabulary));
}

std::vector<int64_t> entries_of(const TokenAlignment& alignment) {
  std::vector<int64_t> entries;
  for (const auto& match : alignment.matches()) entries.push_back(match.slave_entry);
  return entries;
}

void push_text(TokenAlignment& alignment, std::string_view text) {
  for (const char letter : text) alignment.push(static_cast<uint8_t>(letter));
}

TEST(TokenAlignmentTest, MasterTokenTakesTheLastSlaveTokenThatEndsByItsEnd) {
  const auto master = bytes_tokenizer();
  const auto slave = pairs_tokenizer();
  TokenAlignment alignment(*master, *slave);
  push_text(alignment, "abab ab");
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(257)) << "the second word may still grow";
  EXPECT_THAT(entries_of(alignment), ElementsAre(-1, -1, -1, 0));
  EXPECT_EQ(alignment.first_matched(), 3);
  alignment.push(257);
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(257, 258, 259));
  EXPECT_THAT(entries_of(alignment), ElementsAre(-1, -1, -1, 0, 0, 0, 1, 2));
  for (size_t j = 4; j < 8; ++j) EXPECT_EQ(alignment.matches()[j].known_at, 7);
}

TEST(TokenAlignmentTest, LongMasterTokensSkipSlaveTokens) {
  const auto master = pairs_tokenizer();
  const auto slave = bytes_tokenizer();
  TokenAlignment alignment(*master, *slave);
  for (const int32_t id : {257, 258, 259}) alignment.push(id);
  EXPECT_THAT(alignment.slave_ids(), ElementsAre('a', 'b', 'a', 'b', ' ', 'a', 'b', 257));
  EXPECT_THAT(entries_of(alignment), ElementsAre(3, 6, 7));
}

TEST(TokenAlignmentTest, SlaveBeginsWithItsOwnBosAndTheMastersTakesIt) {
  const auto slave = pairs_tokenizer(/*add_bos=*/true);
  Vocabulary with_bos = bytes_tokenizer()->vocabulary();
  with_bos.bos_id = 256;
  const auto master = tokenizer(std::move(with_bos));
  TokenAlignment alignment(*master, *slave);
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(259));
  alignment.push(256);
  alignment.push(kLetterA);
  alignment.push(kSpace);
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(259, kLetterA));
  EXPECT_THAT(entries_of(alignment), ElementsAre(0, 1));
  EXPECT_EQ(alignment.first_matched(), 0);
}

TEST(TokenAlignmentTest, ControlTokensWithoutANamesakeAreNotSeen) {
  const auto master = bytes_tokenizer();
  const auto slave = pairs_tokenizer();
  TokenAlignment alignment(*master, *slave);
  push_text(alignment, "ab");
  alignment.push(256);  // <s>
  push_text(alignment, "ab");
  alignment.push(257);  // <end>
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(256, 256, 259)) << "not one \"abab\"";
  EXPECT_THAT(entries_of(alignment), ElementsAre(-1, 0, 0, 0, 1, 2));
  EXPECT_EQ(alignment.matches()[0].known_at, 2);
  EXPECT_EQ(alignment.matches()[2].known_at, 2);
}

TEST(TokenAlignmentTest, IdsOutsideTheVocabularyHaveNoText) {
  const auto master = bytes_tokenizer();
  const auto slave = pairs_tokenizer();
  TokenAlignment alignment(*master, *slave);
  for (const int32_t id : {-1, 1 << 30, static_cast<int32_t>('a'), 257}) alignment.push(id);
  EXPECT_THAT(alignment.slave_ids(), ElementsAre('a', 259));
  EXPECT_THAT(entries_of(alignment), ElementsAre(-1, -1, 0, 1));
}

TEST(TokenAlignmentTest, GrowthGivesWhatTheWholeTextGives) {
  const auto bytes = bytes_tokenizer();
  const auto pairs = pairs_tokenizer();
  int compared = 0;
  for (const char* text : {"", "a", "ab", "abab", " ab ab  ab", "abababab\n\nab 12345 ab'll ab ",
                           "\xe4\xb8\xad\xe6\x96\x87 ab\xc3\xa9\xff\xfe ab", "x\t\t ab\r\n  "}) {
    expect_alignment(*bytes, *pairs, text, 257, compared);
    expect_alignment(*pairs, *bytes, text, 259, compared);
  }
  EXPECT_EQ(compared, 16);
}

// Tokenizers that put a space in front of a text do so once, wherever the slave goes on reading.
TEST(TokenAlignmentTest, SpacesPutInFrontOfATextAreNoPartOfIt) {
  const auto bytes = bytes_tokenizer();
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  const auto add = [&](std::string piece, float score, TokenKind kind) {
    vocabulary.pieces.push_back(std::move(piece));
    vocabulary.scores.push_back(score);
    vocabulary.kinds.push_back(kind);
  };
  for (int byte = 0; byte < 256; ++byte)
    add(byte_token_name(static_cast<uint8_t>(byte)), 0, TokenKind::kByte);
  for (const char* piece : {"a", "b", "\u2581"}) add(piece, -10, TokenKind::kNormal);
  for (const char* piece : {"ab", "\u2581a", "\u2581ab", "\u2581\u2581"})
    add(piece, -2, TokenKind::kNormal);
  for (const SpacePrefix prefix :
       {SpacePrefix::kNone, SpacePrefix::kEverySegment, SpacePrefix::kEverySegmentUnlessSpace,
        SpacePrefix::kFirstSegmentUnlessSpace}) {
    vocabulary.space_prefix = prefix;
    const auto slave = tokenizer(vocabulary);
    int compared = 0;
    for (const char* text : {"ab ab", "a  ab abab", " ab", "b\u4e2d\u6587 ab ", "abab ab  ab   a"})
      expect_alignment(*bytes, *slave, text, 257, compared);
    EXPECT_EQ(compared, 5);
  }
}

TEST(TokenAlignmentTest, ATextThatEndsIsCertainToItsEnd) {
  const auto master = bytes_tokenizer();
  const auto slave = pairs_tokenizer();
  TokenAlignment alignment(*master, *slave);
  alignment.finish();
  EXPECT_TRUE(alignment.matches().empty());
  push_text(alignment, "abab ab");
  alignment.finish();
  EXPECT_THAT(alignment.slave_ids(), ElementsAre(257, 258));
  EXPECT_THAT(entries_of(alignment), ElementsAre(-1, -1, -1, 0, 0, 0, 1));
}

}  // namespace
}  // namespace suture
