#include "launcher/chat_session.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

// Answers "re: QUESTION"; remembers what it was told.
class FakeBackend final : public ChatBackend {
 public:
  Result<int64_t> restart(const std::vector<ChatTurn>& history) override {
    if (refuse_restart) return fail(ErrorCode::kInvalidArgument, "too long", "chat");
    restarted.push_back(history);
    return 10 * std::ssize(history);
  }
  Result<Answer> ask(const AskOptions& options,
                     const std::function<void(std::string_view)>& on_text,
                     const std::atomic<bool>& cancelled) override {
    asked.push_back(options);
    if (options.text == "fail") return fail(ErrorCode::kLost, "gone", "master", "start again");
    Answer answer;
    answer.reason = cancelled ? FinishReason::kCancelled : FinishReason::kStop;
    if (options.text == "slow") answer.reason = FinishReason::kDeadline;
    if (options.text == "silence") return answer;
    answer.text = "re: " + options.text;
    answer.token_ids = {1, 2};
    answer.figures = {{.name = "m", .role = "master", .prompt_tokens = 10, .reused_tokens = 7}};
    on_text(answer.text);
    return answer;
  }

  std::vector<AskOptions> asked;
  std::vector<std::vector<ChatTurn>> restarted;
  bool refuse_restart = false;
};

class ChatSessionTest : public testing::Test {
 protected:
  bool say(std::string_view message, bool cancelled = false) {
    notes_.clear();
    return session_.handle(message, std::atomic<bool>(cancelled));
  }
  bool noted(std::string_view text) const { return notes_.find(text) != std::string::npos; }

  FakeBackend backend_;
  std::string answers_;
  std::string notes_;
  ChatSession session_{backend_,
                       {.text = {}, .max_tokens = 9},
                       {[this](std::string_view text) { answers_ += text; },
                        [this](std::string_view text) { notes_ += text; }}};
  TestFolder folder_;
};

TEST_F(ChatSessionTest, QuestionsAreAnsweredWithATableOfTokens) {
  EXPECT_TRUE(say("hello"));
  EXPECT_EQ(answers_, "re: hello\n");
  ASSERT_EQ(backend_.asked.size(), 1u);
  EXPECT_EQ(backend_.asked[0].max_tokens, 9);
  EXPECT_TRUE(noted("reused")) << notes_;
  EXPECT_EQ(session_.turns(), (std::vector<ChatTurn>{{"hello", "re: hello"}}));
  EXPECT_TRUE(say(""));
  EXPECT_TRUE(say("  "));
  EXPECT_EQ(backend_.asked.size(), 1u);
  EXPECT_TRUE(say("//etc is what?"));
  EXPECT_EQ(backend_.asked.back().text, "/etc is what?");
}

TEST_F(ChatSessionTest, AnAnswerThatItsDeadlineEndedStaysAsFarAsItCame) {
  EXPECT_TRUE(say("slow"));
  EXPECT_TRUE(noted("deadline")) << notes_;
  EXPECT_EQ(session_.turns(), (std::vector<ChatTurn>{{"slow", "re: slow"}}));
}

TEST_F(ChatSessionTest, WhatGoesWrongIsSaidAndTheChatGoesOn) {
  EXPECT_TRUE(say("fail"));
  EXPECT_TRUE(noted("gone"));
  EXPECT_TRUE(noted("start again"));
  EXPECT_TRUE(session_.turns().empty());
  EXPECT_TRUE(say("\xff"));
  EXPECT_TRUE(noted("UTF-8"));
  EXPECT_EQ(backend_.asked.size(), 1u);
  EXPECT_TRUE(say("next"));
  EXPECT_EQ(session_.failures(), 2);
  const auto json = session_.to_json();
  ASSERT_EQ(json["answers"].size(), 2u);
  EXPECT_EQ(json["answers"][0]["error"]["code"], "lost");
  EXPECT_EQ(json["answers"][1]["question"], "next");
  EXPECT_EQ(json["answers"][1]["finish_reason"], "stop");
}

TEST_F(ChatSessionTest, AStoppedAnswerStaysAsFarAsItCame) {
  say("hello", true);
  EXPECT_TRUE(noted("[stopped]"));
  EXPECT_EQ(session_.turns().size(), 1u);
  say("silence", true);
  EXPECT_EQ(session_.turns().size(), 1u);
}

TEST_F(ChatSessionTest, CommandsAreKnownOrSaidToBeUnknown) {
  say("/help");
  for (const char* name : {"/save", "/load", "/clear", "/stats", "/quit"}) EXPECT_TRUE(noted(name));
  EXPECT_TRUE(say("/sav x"));
  EXPECT_TRUE(noted("/sav is no command"));
  EXPECT_TRUE(noted("/save"));
  EXPECT_TRUE(say("/save"));
  EXPECT_TRUE(noted("file"));
  say("hello");
  say("again");
  say("/stats");
  EXPECT_TRUE(noted("2 questions"));
  EXPECT_TRUE(noted("20")) << notes_;  // tokens read
  EXPECT_FALSE(say("/quit"));
  EXPECT_FALSE(say("/exit"));
  EXPECT_EQ(backend_.asked.size(), 2u);
}

TEST_F(ChatSessionTest, AConversationIsSavedClearedAndLoadedAgain) {
  const std::string file = (folder_.path() / "a chat.json").string();
  say("one");
  say("two");
  say("/save " + file);
  EXPECT_TRUE(noted("2 questions")) << notes_;
  say("/clear");
  EXPECT_TRUE(session_.turns().empty());
  ASSERT_EQ(backend_.restarted.size(), 1u);
  EXPECT_TRUE(backend_.restarted[0].empty());
  say("/load " + file);
  EXPECT_TRUE(noted("20 tokens")) << notes_;
  ASSERT_EQ(backend_.restarted.size(), 2u);
  EXPECT_EQ(backend_.restarted[1], (std::vector<ChatTurn>{{"one", "re: one"}, {"two", "re: two"}}));
  EXPECT_EQ(session_.turns().size(), 2u);
}

TEST_F(ChatSessionTest, AFileThatCannotBeLoadedChangesNothing) {
  say("one");
  say("/load " + folder_.write("bad.json", "{\"suture_chat\": 9}").string());
  EXPECT_TRUE(noted("suture_chat"));
  const std::string good = folder_.write("good.json", R"({"suture_chat":1,"turns":[]})").string();
  backend_.refuse_restart = true;
  say("/load " + good);
  EXPECT_TRUE(noted("too long"));
  EXPECT_EQ(session_.turns().size(), 1u);
  EXPECT_TRUE(backend_.restarted.empty());
}

}  // namespace
}  // namespace suture
