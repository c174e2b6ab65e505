#include "actors/answer_reader.h"

#include <gtest/gtest.h>

#include <memory>

#include "actors/trace_log.h"
#include "models/tokenizer.h"
#include "models/unicode.h"

namespace suture {
namespace {

// A tokenizer whose tokens are these pieces of text, which need not be whole characters.
std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& pieces) {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre_tokenizer = "qwen2";
  for (const std::string& piece : pieces) {
    std::string stored;  // in the alphabet of byte-level BPE
    for (const char c : piece) {
      const auto byte = static_cast<unsigned char>(c);
      append_utf8(byte == ' ' ? 0x120u : byte, stored);
    }
    vocabulary.pieces.push_back(std::move(stored));
  }
  vocabulary.kinds.assign(pieces.size(), TokenKind::kNormal);
  auto created = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(created.has_value()) << created.error().message();
  return std::move(*created);
}

class AnswerReaderTest : public testing::Test {
 protected:
  // Pushes all tokens as far as there is credit, reads them and finishes.
  Answer read(const std::vector<std::string>& pieces, std::vector<std::string> stops) {
    tokenizer_ = tokenizer_of(pieces);
    ring_ = TokenRing::create(64).value();
    AnswerReader reader(
        ring_, *tokenizer_, std::move(stops), [this](std::string_view text) { shown_ += text; },
        asked_ns_);
    TokenRingWriter writer = TokenRingWriter::open(ring_).value();
    for (int32_t id = 0; id < std::ssize(pieces); ++id) {
      if (!writer.wait_credit(deadline_in({}))) break;
      EXPECT_TRUE(writer.push(id));
      reader.read_slice();
    }
    const Status credit = writer.wait_credit(deadline_in({}));
    model_was_told_ = !credit && credit.error().code == ErrorCode::kCancelled;
    writer.finish(1);
    reader.drain();
    Answer answer;
    reader.finish(answer);
    stopped_ = reader.stopped();
    beyond_ = reader.text_beyond_tokens();
    EXPECT_EQ(answer.text, shown_);
    return answer;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<TokenRing> ring_;
  int64_t asked_ns_ = monotonic_ns();
  std::string shown_;
  std::string beyond_;
  bool stopped_ = false;
  bool model_was_told_ = false;
};

TEST_F(AnswerReaderTest, WithoutStopStringsAllIsShown) {
  const Answer answer = read({"one", " two", " thr", "ee"}, {});
  EXPECT_EQ(answer.text, "one two three");
  EXPECT_EQ(answer.token_ids, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(stopped_ || model_was_told_);
}

TEST_F(AnswerReaderTest, AStopStringAcrossTokensEndsTheAnswerAndTellsTheModel) {
  const Answer answer = read({"one", " two E", "N", "D of", " it"}, {"END"});
  EXPECT_EQ(answer.text, "one two ");
  EXPECT_EQ(answer.token_ids, std::vector<int32_t>{0});
  EXPECT_EQ(beyond_, " two ");
  EXPECT_TRUE(stopped_ && model_was_told_);
}

TEST_F(AnswerReaderTest, AStopStringAtATokensBeginningKeepsTheTokensBefore) {
  const Answer answer = read({"one", " two", "END", "x"}, {"END"});
  EXPECT_EQ(answer.text, "one two");
  EXPECT_EQ(answer.token_ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(beyond_, "");
}

TEST_F(AnswerReaderTest, HalfACharacterOfTheStopStringIsNotKept) {
  const Answer answer = read({"one", "\xc3", "\xa4", "x"}, {"ä"});
  EXPECT_EQ(answer.text, "one");
  EXPECT_EQ(answer.token_ids, std::vector<int32_t>{0});
  EXPECT_EQ(beyond_, "");
}

TEST_F(AnswerReaderTest, TextHeldBackIsShownAtTheEnd) {
  const Answer answer = read({"one", " EN"}, {"END"});
  EXPECT_EQ(answer.text, "one EN");
  EXPECT_EQ(answer.token_ids.size(), 2u);
  EXPECT_FALSE(stopped_);
}

TEST_F(AnswerReaderTest, AnUnfinishedCharacterIsShownAsOne) {
  EXPECT_EQ(read({"one", "\xc3"}, {"ä"}).text, "one\xEF\xBF\xBD");
}

}  // namespace
}  // namespace suture
