// How a running launch ends: by signals, gently and at once, by the death of its launcher.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/attach_client.h"
#include "tests/test_launch.h"
#include "tests/test_processes.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

class ShutdownRealTest : public LaunchCommandTest {
 protected:
  // Asks the launch; `act` runs when the first text has come.
  static Result<Answer> ask(
      int64_t max_tokens, const std::function<void()>& act = [] {}) {
    SUTURE_ASSIGN_OR_RETURN(const Attached launch, attach("boats"));
    AskOptions options = launch.defaults;
    options.text = "Tell me a long story about a harbour.";
    options.max_tokens = max_tokens;
    const std::atomic<bool> never = false;
    bool acted = false;
    return launch.ask(
        options,
        [&](std::string_view) {
          if (!std::exchange(acted, true)) act();
        },
        never);
  }
  void expect_nothing_left(const RunningLaunch& launch) const {
    for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid)) << pid;
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "suture"));
  }
};

TEST_F(ShutdownRealTest, SigtermLetsRunningAnswersEndAndRefusesNewOnes) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    RunningLaunch launch(topology_, "boats");
    std::optional<Result<Answer>> late;
    const auto answer = ask(150, [&] {
      ::kill(launch.pid(), signal);
      // Refused once the signal has been seen; until then it would be an answer like the other.
      do late = ask(1);
      while (late->has_value());
    });
    ASSERT_TRUE(answer.has_value()) << answer.error().message();
    EXPECT_NE(answer->reason, FinishReason::kCancelled);
    EXPECT_NE(answer->reason, FinishReason::kError);
    ASSERT_TRUE(late.has_value() && !late->has_value());
    EXPECT_EQ(late->error().code, ErrorCode::kClosed) << late->error().message();
    EXPECT_EQ(launch.wait(), 0);
    expect_nothing_left(launch);
  }
}

TEST_F(ShutdownRealTest, ASecondSignalEndsItAtOnce) {
  RunningLaunch launch(topology_, "boats");
  const auto answer = ask(400, [&] {
    ::kill(launch.pid(), SIGTERM);
    while (ask(1).has_value()) {
    }
    ::kill(launch.pid(), SIGTERM);
  });
  if (answer) {
    EXPECT_EQ(answer->reason, FinishReason::kCancelled);
    EXPECT_LT(answer->token_ids.size(), 400u);
  }
  EXPECT_EQ(launch.wait(), 0);
  expect_nothing_left(launch);
}

// Even what is stopped at that moment and can do nothing by itself.
TEST_F(ShutdownRealTest, AKilledLauncherTakesStoppedWorkersAlong) {
  RunningLaunch launch(topology_, "boats");
  for (const pid_t pid : launch.workers()) ::kill(pid, SIGSTOP);
  EXPECT_EQ(launch.end(SIGKILL), 128 + SIGKILL);
  for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid)) << pid;
  const RunningLaunch next(topology_, "boats");  // its socket file is replaced
  const auto answer = ask(2);
  EXPECT_TRUE(answer.has_value()) << answer.error().message();
}

TEST_F(ShutdownRealTest, AFullDiskCostsTheTraceNotTheAnswer) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const SutureRun run = run_suture(
      {"run", topology_.string(), "-p", "Hello", "-n", "4", "--trace", "/dev/full", "--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.json()["answers"][0]["token_ids"].size(), 4u);
  EXPECT_NE(run.json()["trace_error"]["what"].get<std::string>().find("No space left"),
            std::string::npos);
  EXPECT_NE(run.errors.find("/dev/full"), std::string::npos);
  const SutureRun nowhere = run_suture(
      {"run", topology_.string(), "-p", "Hello", "--trace", "/no/such/folder/t.json", "--json"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_TRUE(nowhere.json().contains("error"));  // before anything was started
}

}  // namespace
}  // namespace suture
