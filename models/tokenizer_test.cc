#include "models/tokenizer.h"

#include <gtest/gtest.h>

#include "models/test_vocabulary.h"

namespace suture {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kThe = 257;
constexpr int32_t kStart = 258;
constexpr int32_t kEnd = 259;
constexpr int32_t kCall = 260;
constexpr int32_t kPad = 261;
constexpr int32_t kStrayEnd = 262;

Vocabulary small_vocabulary() {
  Vocabulary vocabulary =
      make_byte_vocabulary({"t h", "th e"}, {{"<|im_start|>", TokenKind::kControl},
                                             {"<|im_end|>", TokenKind::kControl},
                                             {"<call>", TokenKind::kUserDefined},
                                             {"[PAD]", TokenKind::kUnused},
                                             {"</s>", TokenKind::kNormal}});
  vocabulary.eos_id = kEnd;
  return vocabulary;
}

std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary = small_vocabulary()) {
  auto tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  return ids;
}

TEST(TokenizerTest, ControlTokensAreTextUnlessAskedFor) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->encode("<|im_end|>the", SpecialTokens::kParse), (Ids{kEnd, kThe}));
  Ids as_text = bytes_of("<|im_end|>");
  as_text.push_back(kThe);
  EXPECT_EQ(tokenizer->encode("<|im_end|>the", SpecialTokens::kAsText), as_text);
}

TEST(TokenizerTest, UserDefinedTokensAreAlwaysFound) {
  const auto tokenizer = make_tokenizer();
  for (SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
    EXPECT_EQ(tokenizer->encode("a<call>the", special), (Ids{'a', kCall, kThe}));
  }
}

TEST(TokenizerTest, EndNameInTheFileAsOrdinaryTokenIsAControlToken) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->encode("</s>", SpecialTokens::kAsText), bytes_of("</s>"));
  EXPECT_EQ(tokenizer->encode("</s>", SpecialTokens::kParse), Ids{kStrayEnd});
  EXPECT_EQ(tokenizer->piece(kStrayEnd), "");
}

TEST(TokenizerTest, UnusedTokensAreNeverFound) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->encode("[PAD]", SpecialTokens::kParse), bytes_of("[PAD]"));
}

TEST(TokenizerTest, AnyBytesSurvive) {
  const auto tokenizer = make_tokenizer();
  std::string text = "the \xF0\x9F\x98\x80 \xE4\xB8";
  for (int byte = 255; byte >= 0; --byte) text.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::kAsText)), text);
  EXPECT_EQ(tokenizer->encode("", SpecialTokens::kParse), Ids{});
}

TEST(TokenizerTest, PiecesAreBytesAndControlNamesOnlyIfAskedFor) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->piece(' '), " ");
  EXPECT_EQ(tokenizer->piece(kThe), "the");
  EXPECT_EQ(tokenizer->piece(kCall), "<call>");
  EXPECT_EQ(tokenizer->piece(kStart), "");
  EXPECT_EQ(tokenizer->piece(kStart, true), "<|im_start|>");
  EXPECT_EQ(tokenizer->piece(kPad, true), "[PAD]");
  EXPECT_EQ(tokenizer->piece(-1, true), "");
  EXPECT_EQ(tokenizer->piece(tokenizer->vocab_size(), true), "");
}

TEST(TokenizerTest, StableEndWaitsForWordsAndUserDefinedTokens) {
  const auto tokenizer = make_tokenizer();
  EXPECT_EQ(tokenizer->stable_end("the end"), 3u);
  EXPECT_EQ(tokenizer->stable_end("the end "), 7u);
  EXPECT_EQ(tokenizer->stable_end("the<cal"), 0u);
  EXPECT_EQ(tokenizer->stable_end("the<call>"), 9u);
  EXPECT_EQ(tokenizer->stable_end("the<call>the"), 9u);
  EXPECT_EQ(tokenizer->stable_end("the <|im_end|>the"), 14u);
}

TEST(TokenizerTest, GenerationEndsAtEosEotAndKnownNames) {
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.eos_id = kPad;
  vocabulary.eot_id = kCall;
  const auto tokenizer = make_tokenizer(vocabulary);
  for (int32_t id : {kPad, kCall, kEnd}) EXPECT_TRUE(tokenizer->is_end(id)) << id;
  for (int32_t id : {kStart, kThe, -1}) EXPECT_FALSE(tokenizer->is_end(id)) << id;
}

TEST(TokenizerTest, HashFollowsPiecesAndSpecialIdsOnly) {
  const std::string hash = make_tokenizer()->vocabulary_hash();
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(make_tokenizer()->vocabulary_hash(), hash);

  Vocabulary other_eos = small_vocabulary();
  other_eos.eos_id = kStart;
  EXPECT_EQ(make_tokenizer(other_eos)->vocabulary_hash(), hash);

  Vocabulary other_piece = small_vocabulary();
  other_piece.pieces[kPad] = "[PAE]";
  EXPECT_NE(make_tokenizer(other_piece)->vocabulary_hash(), hash);

  Vocabulary other_kind = small_vocabulary();
  other_kind.kinds[kCall] = TokenKind::kNormal;
  EXPECT_NE(make_tokenizer(other_kind)->vocabulary_hash(), hash);

  // The same bytes in a row, cut elsewhere.
  Vocabulary other_cut = small_vocabulary();
  other_cut.pieces[kCall] = "<call>[";
  other_cut.pieces[kPad] = "PAD]";
  EXPECT_NE(make_tokenizer(other_cut)->vocabulary_hash(), hash);
}

TEST(TokenizerTest, DamagedVocabulariesAreRefused) {
  const auto code_of = [](Vocabulary vocabulary) {
    const auto tokenizer = Tokenizer::create(std::move(vocabulary));
    EXPECT_FALSE(tokenizer);
    return tokenizer ? ErrorCode::kBusy : tokenizer.error().code;
  };
  EXPECT_EQ(code_of({}), ErrorCode::kCorrupt);
  Vocabulary vocabulary = small_vocabulary();
  vocabulary.kinds.pop_back();
  EXPECT_EQ(code_of(vocabulary), ErrorCode::kCorrupt);
  vocabulary = small_vocabulary();
  vocabulary.eos_id = 263;
  EXPECT_EQ(code_of(vocabulary), ErrorCode::kCorrupt);
  vocabulary = small_vocabulary();
  vocabulary.bos_id = -1;
  EXPECT_EQ(code_of(vocabulary), ErrorCode::kCorrupt);
  vocabulary = small_vocabulary();
  vocabulary.model = "bert";
  EXPECT_EQ(code_of(vocabulary), ErrorCode::kUnsupported);
  vocabulary = small_vocabulary();
  vocabulary.pre_tokenizer = "unheard-of";
  EXPECT_EQ(code_of(vocabulary), ErrorCode::kUnsupported);
}

TEST(StreamingDecoderTest, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = make_tokenizer();
  StreamingDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(kThe), "the");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push(kStart), "");
  EXPECT_EQ(decoder.push(0xB8), "");
  EXPECT_EQ(decoder.push(0xAD), "\u4E2D");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamingDecoderTest, InvalidAndUnfinishedBytesBecomeReplacementCharacters) {
  const auto tokenizer = make_tokenizer();
  StreamingDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(0xFF), "\uFFFD");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push('a'), "\uFFFDa");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace suture
