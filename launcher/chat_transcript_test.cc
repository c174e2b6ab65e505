#include "launcher/chat_transcript.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/test_folder.h"

namespace suture {
namespace {

const std::vector<ChatTurn> kTurns = {{"Grüße \"x\"\n", "1\n2"}, {"", "苏州"}};

TEST(ChatTranscriptTest, WhatIsSavedIsLoaded) {
  const TestFolder folder;
  const auto path = folder.path() / "chat.json";
  for (int round = 0; round < 2; ++round) {  // the second time it replaces the file
    ASSERT_TRUE(save_transcript(path, kTurns).has_value());
    const auto loaded = load_transcript(path);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
    EXPECT_EQ(*loaded, kTurns);
  }
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ChatTranscriptTest, AFolderThatIsNotThereIsSaid) {
  const Status status = save_transcript("/nonexistent/chat.json", kTurns);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().where, "/nonexistent/chat.json");
  EXPECT_EQ(load_transcript("/nonexistent/chat.json").error().code, ErrorCode::kNotFound);
}

TEST(ChatTranscriptTest, WhatIsNoTranscriptIsRefusedWithTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON"},
      {"{", "JSON"},
      {"[]", "saved chat"},
      {"{}", "saved chat"},
      {R"({"suture_chat": 2, "turns": []})", "suture_chat is 2"},
      {R"({"suture_chat": "1", "turns": []})", "suture_chat"},
      {R"({"suture_chat": 1})", "turns"},
      {R"({"suture_chat": 1, "turns": {}})", "turns"},
      {R"({"suture_chat": 1, "turns": [3]})", "turns[0]"},
      {R"({"suture_chat": 1, "turns": [{"question": "x"}]})", "answer"},
      {R"({"suture_chat": 1, "turns": [{"question": 1, "answer": ""}]})", "question"},
      {"{\"suture_chat\": 1, \"turns\": [{\"question\": \"\xff\", \"answer\": \"\"}]}", "JSON"},
  };
  for (const auto& [text, named] : cases) {
    const auto turns = parse_transcript(text, "x.json");
    ASSERT_FALSE(turns.has_value()) << text;
    EXPECT_EQ(turns.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(turns.error().message().find(named), std::string::npos) << turns.error().message();
  }
}

TEST(ChatTranscriptTest, DamagedFilesAreErrorsAndNothingElse) {
  const std::string whole = transcript_json(kTurns).dump();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_transcript(whole.substr(0, size), "x").has_value()) << size;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char byte : {'\0', '"', '[', '}', '\x80', '9'}) {
      std::string mutated = whole;
      mutated[at] = byte;
      const auto turns = parse_transcript(mutated, "x");
      EXPECT_TRUE(turns.has_value() || turns.error().code == ErrorCode::kInvalidArgument);
    }
  const std::string deep(100'000, '[');
  EXPECT_FALSE(parse_transcript(deep, "x").has_value());
}

}  // namespace
}  // namespace suture
