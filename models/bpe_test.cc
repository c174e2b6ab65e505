#include "models/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "models/test_vocabulary.h"

namespace suture {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const BytePairEncoder& encoder, std::string_view word) {
  Ids ids;
  encoder.encode(word, ids);
  return ids;
}

TEST(BpeTest, AlphabetMapsEveryByteToOneCharacterAndBack) {
  std::set<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_to_alphabet(static_cast<uint8_t>(byte));
    characters.insert(character);
    EXPECT_EQ(alphabet_to_bytes(character), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(characters.size(), 256u);
  EXPECT_EQ(byte_to_alphabet(' '), "\u0120");
  EXPECT_EQ(byte_to_alphabet('\n'), "\u010A");
  EXPECT_EQ(byte_to_alphabet('a'), "a");
  EXPECT_EQ(alphabet_to_bytes("\u4E2Da"), "\u4E2Da");
}

TEST(BpeTest, BestMergeGoesFirstAndLeftmostAmongEquals) {
  const auto encoder = BytePairEncoder::create(make_byte_vocabulary({"b c", "a b", "a a"}));
  ASSERT_TRUE(encoder) << encoder.error().message();
  EXPECT_EQ(encode(*encoder, "abc"), (Ids{'a', 256}));
  EXPECT_EQ(encode(*encoder, "ab"), (Ids{257}));
  EXPECT_EQ(encode(*encoder, "aaa"), (Ids{258, 'a'}));
  EXPECT_EQ(encode(*encoder, ""), Ids{});
}

TEST(BpeTest, MissingBytesAreDroppedAndMissingMergesFallBackToBytes) {
  Vocabulary vocabulary = make_byte_vocabulary({"x y", "xy z"});
  vocabulary.pieces['\x06'] = "gone";
  vocabulary.pieces[256] = "not xy";
  vocabulary.pieces[257] = "not xyz";
  const auto encoder = BytePairEncoder::create(vocabulary);
  ASSERT_TRUE(encoder) << encoder.error().message();
  EXPECT_EQ(encode(*encoder, "a\x06z"), (Ids{'a', 'z'}));
  EXPECT_EQ(encode(*encoder, "xyz"), (Ids{'x', 'y', 'z'}));
}

TEST(BpeTest, MergesGoThroughSymbolsThatAreNoTokens) {
  Vocabulary vocabulary = make_byte_vocabulary({"x y", "xy z"});
  vocabulary.pieces[256] = "not xy";
  const auto encoder = BytePairEncoder::create(vocabulary);
  EXPECT_EQ(encode(*encoder, "xyz"), (Ids{257}));
}

// The definition, word for word: as long as any neighbours can merge, merge the best.
Ids encode_naively(const Vocabulary& vocabulary, std::string_view word) {
  std::vector<std::string> symbols;
  for (char byte : word) symbols.push_back(byte_to_alphabet(static_cast<uint8_t>(byte)));
  for (;;) {
    size_t best_rank = vocabulary.merges.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = std::find(vocabulary.merges.begin(), vocabulary.merges.end(),
                                   symbols[i] + " " + symbols[i + 1]);
      const auto rank = static_cast<size_t>(found - vocabulary.merges.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best_at = i;
      }
    }
    if (best_rank == vocabulary.merges.size()) break;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    const auto found = std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), symbol);
    ids.push_back(static_cast<int32_t>(found - vocabulary.pieces.begin()));
  }
  return ids;
}

TEST(BpeTest, MatchesTheDefinitionOnRandomWords) {
  std::mt19937 random(7);
  std::vector<std::string> parts = {"a", "b", "c"};
  std::vector<std::string> merges;
  std::set<std::string> made(parts.begin(), parts.end());
  while (merges.size() < 40) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    if (left.size() + right.size() > 6 || !made.insert(left + right).second) continue;
    merges.push_back(left + " " + right);
    parts.push_back(left + right);
  }
  const Vocabulary vocabulary = make_byte_vocabulary(merges);
  const auto encoder = BytePairEncoder::create(vocabulary);
  ASSERT_TRUE(encoder) << encoder.error().message();
  for (int round = 0; round < 300; ++round) {
    std::string word(random() % 40, 'a');
    for (char& c : word) c = static_cast<char>('a' + random() % 4);
    ASSERT_EQ(encode(*encoder, word), encode_naively(vocabulary, word)) << word;
  }
}

// A quadratic algorithm would need hours for this word.
TEST(BpeTest, WordOfAMegabyteIsEncoded) {
  const auto encoder = BytePairEncoder::create(make_byte_vocabulary({"a a", "aa aa"}));
  const Ids ids = encode(*encoder, std::string(1 << 20, 'a'));
  EXPECT_EQ(ids, Ids(1 << 18, 257));
}

TEST(BpeTest, WordThatIsATokenNeedsNoMergesWhereTheVocabularySaysSo) {
  Vocabulary vocabulary = make_byte_vocabulary({"a b"}, {{"xyz", TokenKind::kNormal}});
  EXPECT_EQ(encode(*BytePairEncoder::create(vocabulary), "xyz"), (Ids{'x', 'y', 'z'}));
  vocabulary.whole_words = true;
  EXPECT_EQ(encode(*BytePairEncoder::create(vocabulary), "xyz"), Ids{257});
  EXPECT_EQ(encode(*BytePairEncoder::create(vocabulary), "abxyz"), (Ids{256, 'x', 'y', 'z'}));
}

TEST(BpeTest, CharactersFallBackToTheTokensOfTheirBytes) {
  Vocabulary vocabulary;
  vocabulary.pieces = {"\u00E9", "a", "a\u00E9", "<0xC3>", "<0xA8>", "<0xFF>"};
  vocabulary.kinds = {TokenKind::kNormal, TokenKind::kNormal, TokenKind::kNormal,
                      TokenKind::kByte,   TokenKind::kByte,   TokenKind::kByte};
  vocabulary.merges = {"a \u00E9"};
  const auto encoder = BytePairEncoder::create(vocabulary, BpeAlphabet::kCharacters);
  ASSERT_TRUE(encoder) << encoder.error().message();
  EXPECT_EQ(encode(*encoder, "a\u00E9\u00E9"), (Ids{2, 0}));
  EXPECT_EQ(encode(*encoder, "a\u00E8"), (Ids{1, 3, 4}));
  EXPECT_EQ(encode(*encoder, "\xFF\xC3"), (Ids{5, 3}));
}

TEST(BpeTest, MergeThatIsNoPairIsRefusedByNumber) {
  for (const char* merge : {"", "ab", "ab ", " "}) {
    Vocabulary vocabulary = make_byte_vocabulary({"a b"});
    vocabulary.merges.emplace_back(merge);
    const auto encoder = BytePairEncoder::create(vocabulary);
    ASSERT_FALSE(encoder) << merge;
    EXPECT_EQ(encoder.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(encoder.error().what.find("merge 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace suture
