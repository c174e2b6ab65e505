#include "bench/engine/runner_task.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(RunnerTaskTest, LinesAreReadAsTheyWereWritten) {
  for (const RunnerTask& task :
       {RunnerTask{.prompt_tokens = 512}, RunnerTask{.history = 8192, .generated_tokens = 48}}) {
    const auto parsed = parse_task(task_line(task));
    ASSERT_TRUE(parsed) << task_line(task);
    EXPECT_EQ(*parsed, task) << task_line(task);
  }
  EXPECT_EQ(task_line({.prompt_tokens = 64}), "prefill 64");
  EXPECT_EQ(task_line({.history = 512, .generated_tokens = 48}), "decode 512 48");
}

TEST(RunnerTaskTest, OtherLinesAreNoTask) {
  for (const char* line : {"", "prefill", "prefill 0", "prefill -3", "prefill x", "decode 512",
                           "decode 0 48", "decode 512 0", "read 512"})
    EXPECT_FALSE(parse_task(line)) << line;
}

TEST(RunnerTaskTest, RepliesGiveBothTimes) {
  const auto seconds = parse_reply(reply_line({1.5, 2.75}));
  ASSERT_TRUE(seconds);
  EXPECT_DOUBLE_EQ(seconds->wall, 1.5);
  EXPECT_DOUBLE_EQ(seconds->cpu, 2.75);
}

TEST(RunnerTaskTest, OtherRepliesAreNone) {
  for (const char* line :
       {"", "{", "3", R"({"error": "no"})", R"({"seconds": 1})",
        R"({"seconds": 0, "cpu_seconds": 1})", R"({"seconds": "1", "cpu_seconds": 1})"})
    EXPECT_FALSE(parse_reply(line)) << line;
}

}  // namespace
}  // namespace suture
