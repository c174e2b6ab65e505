#include "launcher/program.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(ProgramTest, GathersBothOutputsAndTheExitCode) {
  const auto result = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
}

TEST(ProgramTest, ArgumentsReachTheProgramAsTheyAre) {
  const auto result = run_program({"printf", "%s", "$(id); \"quoted\" *"});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->output, "$(id); \"quoted\" *");
}

TEST(ProgramTest, KeepsTheEndOfALongOutput) {
  const auto result = run_program({"sh", "-c", "yes 0123456789 | head -n 100000; echo the end"});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_LE(result->output.size(), 128u * 1024);
  EXPECT_TRUE(result->output.ends_with("the end\n"));
}

TEST(ProgramTest, TellsASignalAndAMissingProgram) {
  const auto killed = run_program({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(killed.has_value());
  EXPECT_EQ(killed->exit_code, 128 + 9);
  EXPECT_EQ(run_program({"suture-no-such-program"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace suture
