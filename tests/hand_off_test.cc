// Slaves whose answers reach the master in words, in processes, against the same computed in one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/hand_off.h"
#include "actors/prompt_builder.h"
#include "base/test_folder.h"
#include "models/test_models.h"
#include "tests/test_mapped_rows.h"
#include "tests/test_suture.h"
#include "tests/test_text_launch.h"

namespace suture {
namespace {

constexpr const char* kQuestion = "why is it dry in the north, and for how long";
constexpr const char* kNext = "and when does it end";
constexpr const char* kDocument = "it was late when the first of the boats came in";
constexpr const char* kLeavesSpeechless = "the rain in the south came down on the other hand";
constexpr const char* kReads = "documents = [\"document.txt\"]";
constexpr int64_t kWords = 12;   // tokens that a slave says
constexpr int64_t kAnswer = 20;  // tokens of the master
constexpr int64_t kRoom = 4096;  // tokens

// One model that speaks in this process, after a text that grows.
class Voice {
 public:
  explicit Voice(const std::filesystem::path& path)
      : model_(load_model(path)),
        tokenizer_(tokenizer_of(*model_)),
        encodings_(tokenizer_, 8),
        prompts_(encodings_, ChatFormat::detect(tokenizer_->vocabulary()).value()),
        cache_(model_->make_cache(kRoom).value()) {}

  PromptBuilder& prompts() { return prompts_; }
  // Reads on, and says so many tokens, the best one each time.
  std::vector<int32_t> say(const std::vector<int32_t>& more, int64_t most, bool may_end) {
    text_.insert(text_.end(), more.begin(), more.end());
    const float* logits = read_alone(*model_, *cache_, text_);
    std::vector<int32_t> said;
    while (std::ssize(said) < most) {
      const int32_t next = best_token(*model_, logits);
      if (may_end && tokenizer_->is_end(next)) break;
      said.push_back(next);
      logits = model_->decode(next, *cache_).value();
    }
    text_.insert(text_.end(), said.begin(), said.end());
    return said;
  }
  std::string text_of(const std::vector<int32_t>& ids) const {
    StreamingDecoder decoder(*tokenizer_);
    std::string text;
    for (const int32_t id : ids) text += decoder.push(id);
    return text + decoder.finish();
  }
  const std::vector<int32_t>& text() const { return text_; }

 private:
  std::unique_ptr<LanguageModel> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  EncodingCache encodings_;
  PromptBuilder prompts_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int32_t> text_;
};

std::vector<int32_t> joined(std::vector<int32_t> ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

class HandOffSystemTest : public testing::Test {
 protected:
  HandOffSystemTest() : master_(mapping_master()), stranger_(mapped_stranger()) {
    folder_.write("document.txt", kDocument);
  }

  std::unique_ptr<Launch> start(const std::string& fusion, const TemporaryFile& slave,
                                const std::string& lines = "", const std::string& file_lines = "",
                                int64_t max_seq_len = 1024) const {
    return start_text_launch(
        {folder_.path(), master_.path(), slave.path(),
         fusion.empty() ? "" : fmt::format("fusion = {{ {} }}\n{}", fusion, lines), file_lines,
         max_seq_len});
  }
  static std::string words(const std::string& more = "", int64_t tokens = kWords) {
    return fmt::format("mode = \"text\", draft = {}{}", tokens, more);
  }
  static AskOptions question(int64_t max_tokens = kAnswer, const std::string& text = kQuestion) {
    AskOptions options;
    options.text = text;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    return options;
  }
  static Answer ask(Launch& launch, const AskOptions& options = question()) {
    const std::atomic<bool> never = false;
    auto answer = launch.ask(
        options, [](std::string_view) {}, never);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer.value_or(Answer());
  }
  // What the stranger says to the question after these documents.
  std::string stranger_says(const std::vector<std::string>& documents) const {
    Voice slave(stranger_.path());
    return slave.text_of(
        slave.say(joined(slave.prompts().head("ab", documents), slave.prompts().tail(kQuestion)),
                  kWords, true));
  }
  // What the master says when this comes before the question.
  std::vector<int32_t> master_says(const std::vector<std::string>& answers) const {
    Voice master(master_.path());
    return master.say(joined(master.prompts().head("ab", {}),
                             master.prompts().tail(with_context(handed_over(answers), kQuestion))),
                      kAnswer, false);
  }

  TestFolder folder_;
  const TemporaryFile master_;
  const TemporaryFile stranger_;  // another shape, another vocabulary
};

TEST_F(HandOffSystemTest, TheMasterReadsWhatTheSlaveSaid) {
  const std::string said = stranger_says({kDocument});
  ASSERT_FALSE(said.empty());
  const std::vector<int32_t> expected = master_says({said});
  for (const char* placement : {"", "placement = \"in-process\""}) {
    const auto launch = start(words(", position = \"prefix\""), stranger_, kReads, placement);
    for (int round = 0; round < 2; ++round) {
      const Answer answer = ask(*launch);
      EXPECT_EQ(answer.token_ids, expected);
      ASSERT_EQ(answer.drafts.size(), 1u);
      EXPECT_EQ(answer.drafts[0].slave, "s");
      EXPECT_EQ(answer.drafts[0].text, said);
      EXPECT_TRUE(answer.drafts[0].handed_over);
      EXPECT_TRUE(answer.degraded.empty());
      ASSERT_EQ(answer.figures.size(), 2u);
      EXPECT_EQ(answer.figures[0].name, "m");
      EXPECT_EQ(answer.figures[0].kv_bytes_read, 0);
      EXPECT_EQ(answer.figures[1].name, "s");
    }
  }
  EXPECT_NE(ask(*start("", stranger_)).token_ids, expected);
}

// The master's text is its question, and the master's documents are its own.
TEST_F(HandOffSystemTest, AnAlignedSlaveIsAskedWhatTheMasterIsAsked) {
  const auto launch = start(words(), stranger_);
  const Answer answer = ask(*launch);
  EXPECT_EQ(answer.drafts.at(0).text, stranger_says({}));
  EXPECT_EQ(answer.token_ids, master_says({stranger_says({})}));
  AskOptions control = question();
  control.slave_texts.aligned_text = kNext;
  EXPECT_NE(ask(*launch, control).drafts.at(0).text, answer.drafts[0].text);
}

TEST_F(HandOffSystemTest, DocumentsMayComeWithTheQuestion) {
  const auto launch = start(words(", position = \"prefix\""), stranger_, "documents = []");
  AskOptions asked = question();
  asked.slave_texts.documents = {{"s", {kDocument}}};
  EXPECT_EQ(ask(*launch, asked).drafts.at(0).text, stranger_says({kDocument}));
  EXPECT_EQ(ask(*launch).drafts.at(0).text, stranger_says({}));
  const std::atomic<bool> never = false;
  asked.slave_texts.documents = {{"m", {kDocument}}};
  EXPECT_FALSE(launch->ask(
      asked, [](std::string_view) {}, never));
}

TEST_F(HandOffSystemTest, ASlaveThatSaysNothingIsTold) {
  ASSERT_EQ(stranger_says({kLeavesSpeechless}), "");
  folder_.write("document.txt", kLeavesSpeechless);
  const Answer answer = ask(*start(words(", position = \"prefix\""), stranger_, kReads));
  EXPECT_EQ(answer.token_ids, master_says({}));
  ASSERT_EQ(answer.drafts.size(), 1u);
  EXPECT_TRUE(answer.drafts[0].token_ids.empty());
  ASSERT_EQ(answer.degraded.size(), 1u);
  EXPECT_EQ(answer.degraded[0].why, "it said nothing");
}

// Who falls back on words does as one that was asked for them.
TEST_F(HandOffSystemTest, AutoComesToWordsWhereNothingElseFits) {
  const auto launch = start(
      fmt::format("mode = \"auto\", position = \"prefix\", draft = {}", kWords), stranger_, kReads);
  EXPECT_EQ(ask(*launch).token_ids, master_says({stranger_says({kDocument})}));
  const auto topology =
      folder_.write("t.toml", text_topology({folder_.path(), master_.path(), stranger_.path(),
                                             "fusion = { mode = \"auto\" }\n", "", 256}));
  const SutureRun checked = run_suture({"check", topology.string(), "--json"});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  const nlohmann::json json = checked.json();
  EXPECT_EQ(json["slaves"][0]["mode"], "text");
  EXPECT_NE(json["slaves"][0]["reason"].get<std::string>().find("no projector"), std::string::npos);
}

// Words stay in the master's text as it read them; the slave is told what was asked and answered,
// and not what it said itself.
TEST_F(HandOffSystemTest, AConversationRemembersWhatWasHandedOver) {
  const auto launch = start(words(", position = \"prefix\""), stranger_, kReads);
  AskOptions options = question();
  options.conversation = launch->open_conversation({})->id;
  const Answer first = ask(*launch, options);
  options.text = kNext;
  const Answer second = ask(*launch, options);
  Voice master(master_.path());
  Voice slave(stranger_.path());
  const auto said = [&](const std::vector<int32_t>& prompt) {
    return slave.text_of(slave.say(prompt, kWords, true));
  };
  const std::vector<int32_t> read =
      joined(slave.prompts().head("ab", {kDocument}), slave.prompts().tail(kQuestion));
  const std::string first_words = said(read);
  const std::vector<int32_t> answer =
      master.say(joined(master.prompts().head("ab", {}),
                        master.prompts().tail(with_context(handed_over({first_words}), kQuestion))),
                 kAnswer, false);
  EXPECT_EQ(first.token_ids, answer);
  Voice again(stranger_.path());
  const std::vector<int32_t> turn =
      joined(read, joined(again.prompts().answer(first.text), again.prompts().next_turn(kNext)));
  const std::string second_words = again.text_of(again.say(turn, kWords, true));
  EXPECT_EQ(second.drafts.at(0).text, second_words);
  EXPECT_EQ(second.token_ids,
            master.say(master.prompts().next_turn(with_context(handed_over({second_words}), kNext)),
                       kAnswer, false));
  // Only what is new is read.
  EXPECT_EQ(second.figures.at(0).reused_tokens + second.figures.at(0).prompt_tokens,
            second.prompt_tokens);
  EXPECT_GT(second.figures.at(0).reused_tokens, first.prompt_tokens);
}

TEST_F(HandOffSystemTest, WordsAndRowsOfSeveralSlavesComeTogether) {
  const std::string reader = fmt::format(
      "[[model]]\nname = \"r\"\nrole = \"slave\"\npath = \"{}\"\ndocuments = [\"document.txt\"]\n"
      "fusion = {{ position = \"prefix\", draft = 4 }}\n",
      master_.path().string());
  const auto launch = start(words(), stranger_, reader);
  const Answer answer = ask(*launch);
  const std::string said = stranger_says({});
  ASSERT_EQ(answer.drafts.size(), 2u);
  EXPECT_EQ(answer.drafts[0].text, said);
  EXPECT_FALSE(answer.drafts[1].handed_over);
  ASSERT_EQ(answer.figures.size(), 3u);
  EXPECT_EQ(answer.figures[2].name, "r");
  // The reader drafts from the question alone, as it is asked.
  const auto stitched = start_text_launch(
      {folder_.path(), master_.path(), master_.path(),
       "documents = [\"document.txt\"]\nfusion = { position = \"prefix\" }", "", 1024});
  const auto without_draft =
      start(words(), stranger_, reader.substr(0, reader.find(", draft")) + " }\n");
  EXPECT_EQ(
      ask(*without_draft).token_ids,
      ask(*stitched, question(kAnswer, with_context(handed_over({said}), kQuestion))).token_ids);
}

TEST_F(HandOffSystemTest, ContinuationsAreScoredAfterTheWords) {
  const auto launch = start(words(", position = \"prefix\""), stranger_, kReads);
  const std::atomic<bool> never = false;
  const auto scored =
      launch->score({.text = kQuestion, .continuations = {" because of the wind", "x"}}, never);
  ASSERT_TRUE(scored.has_value()) << scored.error().message();
  Voice master(master_.path());
  EXPECT_EQ(scored->question_ids,
            joined(master.prompts().head("ab", {}),
                   master.prompts().tail(
                       with_context(handed_over({stranger_says({kDocument})}), kQuestion))));
  EXPECT_EQ(scored->figures.at(1).decoded_tokens, kWords) << "it is asked once";
  const auto refused =
      launch->score(TokenScoreOptions{.question = {1, 2}, .continuation = {3}}, never);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

// A slave that speaks so long that something can happen meanwhile.
class LongHandOffTest : public HandOffSystemTest {
 protected:
  static constexpr int64_t kLong = 4096;

  std::vector<int32_t> alone() const { return master_says({}); }
  static void expect_without(const Answer& answer, const std::string& why) {
    EXPECT_TRUE(answer.drafts.empty());
    ASSERT_EQ(answer.degraded.size(), 1u);
    EXPECT_EQ(answer.degraded[0].slave, "s");
    EXPECT_EQ(answer.degraded[0].token, 0);
    EXPECT_NE(answer.degraded[0].why.find(why), std::string::npos) << answer.degraded[0].why;
  }

  const TemporaryFile talker_{mapping_talker()};
};

TEST_F(LongHandOffTest, TheMasterGoesOnWithoutASlaveThatIsKilled) {
  const auto launch = start(words("", kLong), talker_, "", "restarts = 0");
  const auto answer = ask_while_slave_speaks(*launch, question(), [&] { kill_slave(*launch); });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->token_ids, alone());
  expect_without(*answer, "killed");
  // It is not asked again.
  const Answer next = ask(*launch);
  EXPECT_EQ(next.token_ids, alone());
  expect_without(next, "killed");
}

TEST_F(LongHandOffTest, ASlaveThatReturnsIsAskedAgain) {
  const auto launch = start(words("", kLong), talker_);
  ask_while_slave_speaks(*launch, question(), [&] { kill_slave(*launch); });
  while (launch->snapshot().processes.at(1).state != ProcessState::kIdle) std::this_thread::yield();
  EXPECT_EQ(ask(*launch).drafts.size(), 1u);
}

TEST_F(LongHandOffTest, OnFailureFailEndsTheRequest) {
  const auto launch = start(words("", kLong), talker_, "on_failure = \"fail\"\n", "restarts = 0");
  const auto answer = ask_while_slave_speaks(*launch, question(), [&] { kill_slave(*launch); });
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kLost) << answer.error().message();
}

TEST_F(LongHandOffTest, CancellingEndsTheRequest) {
  const auto launch = start(words("", kLong), talker_);
  std::atomic<bool> cancelled = false;
  AskOptions options = question();
  options.conversation = launch->open_conversation({})->id;
  const auto answer = ask_while_slave_speaks(
      *launch, options, [&] { cancelled = true; }, cancelled);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->reason, FinishReason::kCancelled);
  EXPECT_TRUE(answer->token_ids.empty());
  EXPECT_TRUE(answer->drafts.empty());
  EXPECT_LT(answer->figures.at(0).decoded_tokens, kLong);
  EXPECT_EQ(launch->requests(), 0);
}

// The slave has half of the time.
TEST_F(LongHandOffTest, ALateSlaveIsLeftOut) {
  const auto launch = start(words("", kLong), talker_);
  AskOptions options = question(1);
  options.deadline_seconds = 0.1;
  const Answer answer = ask(*launch, options);
  expect_without(answer, "half of the time");
}

// More words than the master can read beside the question.
TEST_F(LongHandOffTest, WordsThatDoNotFitAreLeftOut) {
  const auto launch = start(words("", kLong), talker_, "", "", 256);
  const Answer answer = ask(*launch);
  EXPECT_EQ(answer.token_ids, alone());
  ASSERT_EQ(answer.drafts.size(), 1u) << "what was said is told";
  EXPECT_GE(std::ssize(answer.drafts[0].token_ids), 256);
  ASSERT_EQ(answer.degraded.size(), 1u);
  EXPECT_NE(answer.degraded[0].why.find("max_seq_len is 256"), std::string::npos);
}

// A question that the slave has no room for is answered by the master alone.
TEST_F(LongHandOffTest, ASlaveWithoutRoomIsLeftOut) {
  const std::string longer(300, 'x');
  folder_.write("document.txt", longer);
  const auto launch = start(words(", position = \"prefix\""), talker_, kReads, "", 400);
  AskOptions options = question(4, std::string(240, 'y'));
  const Answer answer = ask(*launch, options);
  expect_without(answer, "no room");
  EXPECT_EQ(answer.token_ids.size(), 4u);
}

}  // namespace
}  // namespace suture
