#include "launcher/answer_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace suture {
namespace {

TEST(AnswerTableTest, SaysWhatWasOutOfTheOrdinary) {
  Answer answer;
  EXPECT_TRUE(answer_notes(answer).empty());
  answer.token_ids = {1, 2};
  answer.degraded = {{"logic", 7, "process exited"}};
  answer.replayed = {{9, "process hung"}};
  answer.reason = FinishReason::kLength;
  const auto notes = answer_notes(answer);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0], "went on without 'logic' from token 7: process exited");
  EXPECT_NE(notes[1].find("another master from token 9"), std::string::npos);
  EXPECT_NE(notes[1].find("process hung"), std::string::npos);
  EXPECT_EQ(notes[2], "stopped after 2 tokens; -n asks for more");
}

TEST(AnswerTableTest, ShowsWhatSlavesDrafted) {
  Answer answer;
  answer.drafts = {{"reader", {1, 2, 3}, "It left\nat \x1b[31mnine.", 0.5},
                   {"aide", {4}, "At nine.", 0.25, true}};
  const auto notes = answer_notes(answer);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[1], "'aide' handed over 1 tokens in 0.25 s: At nine.");
  EXPECT_EQ(notes[0], "'reader' drafted 3 tokens in 0.50 s: It left at \\x1b[31mnine.");
}

TEST(AnswerTableTest, AlignsColumnsAndComputesRates) {
  std::vector<ProcessFigures> figures(2);
  figures[0].name = "master";
  figures[0].role = "master";
  figures[0].prompt_tokens = 42;
  figures[0].prefill_seconds = 0.5;
  figures[0].decoded_tokens = 20;
  figures[0].decode_seconds = 4;
  figures[0].bus_waits = 3;
  figures[0].bus_wait_seconds = 1.25;
  figures[0].kv_bytes_read = 2'000'000;
  figures[0].resident_bytes = 1'500'000'000;
  figures[1].name = "history";
  figures[1].role = "slave";
  figures[1].prompt_tokens = 700;
  figures[1].prefill_seconds = 12.345;
  figures[1].kv_bytes_published = 2'000'000;
  EXPECT_EQ(answer_table(figures),
            "process  role    prompt tokens  prefill s  decode tok/s   bus waits  K/V out (MB)"
            "  K/V in (MB)  memory (MB)\n"
            "master   master             42       0.50          5.00  3 (1.25 s)           0.0"
            "          2.0       1500.0\n"
            "history  slave             700      12.35             -           0           2.0"
            "          0.0          0.0\n");
}

TEST(AnswerTableTest, SaysWhoProjectsWhereSomebodyDoes) {
  std::vector<ProcessFigures> figures = {{.name = "a", .role = "master"},
                                         {.name = "b", .role = "slave"}};
  figures[1].projection_seconds = 0.25;
  const std::string table = answer_table(figures);
  EXPECT_NE(table.find("prefill s  projection s  decode"), std::string::npos) << table;
  EXPECT_NE(table.find("0.00             -"), std::string::npos) << table;
  EXPECT_NE(table.find("0.00          0.25"), std::string::npos) << table;
}

TEST(AnswerTableTest, AChatShowsWhatItReused) {
  const std::vector<ProcessFigures> figures = {{.name = "m",
                                                .role = "master",
                                                .prompt_tokens = 12,
                                                .reused_tokens = 340,
                                                .decoded_tokens = 20,
                                                .decode_seconds = 4}};
  EXPECT_EQ(chat_table(figures),
            "process  role    tokens read  reused  generated  prefill s  decode tok/s\n"
            "m        master           12     340         20       0.00          5.00\n");
}

TEST(AnswerTableTest, NoProcessesLeaveTheTitles) {
  EXPECT_TRUE(answer_table({}).starts_with("process  role"));
}

}  // namespace
}  // namespace suture
