// `suture launch` and `suture run --attach` as two users' terminals see them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "tests/test_launch.h"
#include "tests/test_processes.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

class AttachRealTest : public LaunchCommandTest {
 protected:
  static SutureRun ask(const std::string& name) {
    return run_suture({"run", "--attach", name, "-p", "How many passengers?", "-n", "8", "--json"});
  }
};

TEST_F(AttachRealTest, AnswersAreTheSameAsThoseOfRun) {
  RunningLaunch launch(topology_, "boats");
  ASSERT_EQ(launch.workers().size(), 2u);
  const SutureRun attached = ask("boats");
  ASSERT_EQ(attached.exit_code, 0) << attached.errors;
  const SutureRun again = ask("boats");
  const SutureRun direct =
      run_suture({"run", topology_.string(), "-p", "How many passengers?", "-n", "8", "--json"});
  ASSERT_EQ(direct.exit_code, 0) << direct.errors;
  const auto ids = direct.json()["answers"][0]["token_ids"];
  EXPECT_EQ(attached.json()["answers"][0]["token_ids"], ids);
  EXPECT_EQ(again.json()["answers"][0]["token_ids"], ids);
  EXPECT_EQ(launch.end(SIGTERM), 0);
  for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "suture"));
}

TEST_F(AttachRealTest, AConversationIsTheSameAsThatOfChatAndReadsOnlyWhatIsNew) {
  RunningLaunch launch(topology_, "boats");
  const std::string questions = "How many passengers?\nAnd how many in the crew?\n";
  const auto chat = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "chat");
    arguments.insert(arguments.end(), {"-n", "8", "--json"});
    const SutureRun run = run_suture(arguments, questions);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.json()["answers"];
  };
  const auto attached = chat({"--attach", "boats"});
  const auto again = chat({"--attach", "boats"});  // another client, a conversation of its own
  const auto direct = chat({topology_.string()});
  for (const size_t turn : {0u, 1u}) {
    EXPECT_EQ(attached[turn]["token_ids"], direct[turn]["token_ids"]);
    EXPECT_EQ(again[turn]["token_ids"], direct[turn]["token_ids"]);
  }
  const auto& master = again[1]["processes"][0];
  EXPECT_EQ(master["name"], "master");
  EXPECT_GE(master["reused_tokens"], 30);
  EXPECT_EQ(master["prompt_tokens"].get<int64_t>() + master["reused_tokens"].get<int64_t>(),
            again[1]["prompt_tokens"].get<int64_t>());
  EXPECT_EQ(launch.end(SIGTERM), 0);
}

TEST_F(AttachRealTest, ANameThatLivesIsRefused) {
  const RunningLaunch launch(topology_, "boats");
  const SutureRun second = run_suture({"launch", topology_.string(), "--json"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.json()["error"]["code"], "busy");
  EXPECT_EQ(ask("boats").exit_code, 0);
}

TEST_F(AttachRealTest, AKilledLauncherLeavesNoProcessAndItsNameIsFree) {
  RunningLaunch launch(topology_, "boats");
  EXPECT_EQ(launch.end(SIGKILL), 128 + SIGKILL);
  for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid));
  EXPECT_EQ(ask("boats").exit_code, 1);
  const RunningLaunch next(topology_, "boats");
  EXPECT_EQ(ask("boats").exit_code, 0);
}

TEST_F(AttachRealTest, NoSuchLaunchIsSaidWithARemedy) {
  const SutureRun run = ask("nobody");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.json()["error"]["code"], "not_found");
  EXPECT_NE(run.errors.find("suture launch"), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace suture
