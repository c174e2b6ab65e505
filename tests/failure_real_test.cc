// What happens to an answer when one of the processes behind it is killed, stopped, hung, out of
// memory or in a crash loop, with real models and real processes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bus/test_freeze.h"
#include "tests/test_processes.h"
#include "tests/test_real_launch.h"

namespace suture {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaster = 0;
constexpr size_t kReader = 1;
constexpr size_t kTwin = 2;

class FailureRealTest : public RealLaunchTest {
 protected:
  // Restarts come at once, unless `spec` says that there are none.
  static std::unique_ptr<Launch> started(const LaunchSpec& spec,
                                         const std::string& program = SUTURE_BINARY) {
    auto launch = start(spec, {.first_delay = milliseconds(1)}, program);
    EXPECT_TRUE(launch.has_value()) << launch.error().message();
    return launch ? std::move(*launch) : nullptr;
  }
  LaunchSpec without_restarts() const {
    LaunchSpec spec = topology(Placement::kProcesses);
    spec.restarts = 0;
    return spec;
  }

  static pid_t pid_of(const Launch& launch, size_t model) {
    return launch.snapshot().processes.at(model).pid;
  }
  static ProcessState state_of(const Launch& launch, size_t model) {
    return launch.snapshot().processes.at(model).state;
  }
  // Looks again and again; a test that waits in vain fails after a minute.
  static void wait_until(const std::function<bool()>& ready) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!ready()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }
  static void wait_for_state(const Launch& launch, size_t model, ProcessState state) {
    wait_until([&] { return state_of(launch, model) == state; });
  }
  // Until the process of that model is another one than `before`, and at work.
  static void wait_for_return(const Launch& launch, size_t model, pid_t before) {
    wait_until([&] {
      const pid_t now = pid_of(launch, model);
      return now != 0 && now != before;
    });
  }
  // Asks; runs `act` once, when the third piece of text has come.
  static Result<Answer> ask_and_then(Launch& launch, int64_t max_tokens,
                                     const std::function<void()>& act,
                                     std::string* streamed = nullptr) {
    int pieces = 0;
    return ask(launch, max_tokens, [&](std::string_view text) {
      if (streamed != nullptr) *streamed += text;
      if (++pieces == 3) act();
    });
  }
};

TEST_F(FailureRealTest, AKilledSlaveIsLeftBehindAndTheAnswerSaysFromWhichToken) {
  const auto launch = started(without_restarts());
  ASSERT_NE(launch, nullptr);
  const auto answer = ask_and_then(*launch, 48, [&] { ::kill(pid_of(*launch, kReader), SIGKILL); });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "reader");
  EXPECT_GE(answer->degraded[0].token, 3);
  EXPECT_NE(answer->degraded[0].why.find("signal 9"), std::string::npos) << answer->degraded[0].why;
  // The next answer begins without it, and says so.
  const auto next = ask(*launch, 4);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  ASSERT_EQ(next->degraded.size(), 1u);
  EXPECT_EQ(next->degraded[0].token, 0);
  EXPECT_NE(next->degraded[0].why.find("signal 9"), std::string::npos) << next->degraded[0].why;
  EXPECT_EQ(state_of(*launch, kReader), ProcessState::kLost);
}

TEST_F(FailureRealTest, AStoppedSlaveIsWaitedForUntilTheBrokerEndsIt) {
  const auto launch = started(without_restarts());
  ASSERT_NE(launch, nullptr);
  const pid_t twin = pid_of(*launch, kTwin);
  const auto answer = ask_and_then(*launch, 24, [&] { ::kill(twin, SIGSTOP); });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->token_ids.size(), 24u);
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "twin");
  EXPECT_TRUE(process_ends(twin));
  const auto next = ask(*launch, 2);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  ASSERT_EQ(next->degraded.size(), 1u);
  EXPECT_NE(next->degraded[0].why.find("stopped"), std::string::npos) << next->degraded[0].why;
}

TEST_F(FailureRealTest, AHungSlaveIsWaitedForUntilItsBound) {
  LaunchSpec spec = without_restarts();
  spec.hung_after = std::chrono::seconds(2);
  const auto launch = started(spec);
  ASSERT_NE(launch, nullptr);
  const pid_t twin = pid_of(*launch, kTwin);
  std::optional<FrozenProcess> frozen;
  std::string why_not;
  const auto answer = ask_and_then(*launch, 24, [&] {
    if (auto done = freeze(twin))
      frozen.emplace(std::move(*done));
    else
      why_not = done.error().message();
  });
  if (!frozen) GTEST_SKIP() << "processes cannot be traced here: " << why_not;
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->token_ids.size(), 24u);
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "twin");
  frozen.reset();
  EXPECT_TRUE(process_ends(twin));
  const auto next = ask(*launch, 2);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  ASSERT_EQ(next->degraded.size(), 1u);
  EXPECT_NE(next->degraded[0].why.find("hung"), std::string::npos) << next->degraded[0].why;
}

TEST_F(FailureRealTest, OnFailureFailEndsTheAnswerAndNamesTheToken) {
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.models[kReader].on_failure = OnFailure::kFail;
  const auto launch = started(spec);
  ASSERT_NE(launch, nullptr);
  const pid_t reader = pid_of(*launch, kReader);
  const auto answer = ask_and_then(*launch, 48, [&] { ::kill(reader, SIGKILL); });
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kLost);
  EXPECT_EQ(answer.error().where, "reader");
  EXPECT_NE(answer.error().what.find("at token "), std::string::npos) << answer.error().what;
  // Once it is back the launch answers as before.
  wait_for_return(*launch, kReader, reader);
  const auto next = ask(*launch, 4);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  EXPECT_TRUE(next->degraded.empty());
}

TEST_F(FailureRealTest, ASlaveThatWasRestartedTakesPartAgain) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  const auto whole = ask(*launch, 16);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  for (const size_t slave : {kReader, kTwin}) {
    const pid_t before = pid_of(*launch, slave);
    const auto answer = ask_and_then(*launch, 16, [&] { ::kill(before, SIGKILL); });
    ASSERT_TRUE(answer.has_value()) << answer.error().message();
    EXPECT_EQ(answer->degraded.size(), 1u);
    wait_for_return(*launch, slave, before);
    const auto next = ask(*launch, 16);
    ASSERT_TRUE(next.has_value()) << next.error().message();
    EXPECT_TRUE(next->degraded.empty());
    EXPECT_EQ(next->token_ids, whole->token_ids);
  }
}

// Killed in the middle of its document: the master reads its prompt again without it.
TEST_F(FailureRealTest, ASlaveKilledInItsPrefillIsLeftBehindBeforeTheFirstToken) {
  LaunchSpec spec = without_restarts();
  std::string document;
  for (int line = 0; line < 60; ++line)
    document += fmt::format("Entry {}: the ferry carried {} passengers.\n", line, 100 + 7 * line);
  spec.models[kReader].documents = {folder_.write("long.txt", document)};
  const auto launch = started(spec);
  ASSERT_NE(launch, nullptr);
  wait_for_state(*launch, kReader, ProcessState::kReading);
  ::kill(pid_of(*launch, kReader), SIGKILL);
  const auto answer = ask(*launch, 8);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "reader");
  EXPECT_EQ(answer->degraded[0].token, 0);
}

// Each new process is killed as soon as it is there, long before it has loaded its model.
TEST_F(FailureRealTest, AProcessThatDiesBeforeItsFirstHeartbeatIsStartedAgain) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  pid_t last = pid_of(*launch, kReader);
  const auto others = launch->pids();
  ::kill(last, SIGKILL);
  for (int killed = 0; killed < 3; ++killed) {
    pid_t born = 0;
    wait_until([&] {
      for (const pid_t pid : launch->pids())
        if (pid != last && std::ranges::find(others, pid) == others.end()) born = pid;
      return born != 0;
    });
    ::kill(born, SIGKILL);
    last = born;
  }
  wait_for_return(*launch, kReader, last);
  const auto next = ask(*launch, 8);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  EXPECT_TRUE(next->degraded.empty());
}

TEST_F(FailureRealTest, ACrashLoopEndsInAClearState) {
  const auto flag = folder_.path() / "broken";
  const auto program =
      folder_.write("worker", fmt::format("#!/bin/sh\n[ -e {} ] && exit 3\nexec {} \"$@\"\n",
                                          flag.string(), SUTURE_BINARY));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.restarts = 3;
  const auto launch = started(spec, program);
  ASSERT_NE(launch, nullptr);
  folder_.write("broken", "");
  ::kill(pid_of(*launch, kReader), SIGKILL);
  wait_for_state(*launch, kReader, ProcessState::kLost);
  const std::string why = launch->snapshot().processes[kReader].why;
  EXPECT_NE(why.find("exit status 3"), std::string::npos) << why;
  EXPECT_NE(why.find("given up after 3 tries"), std::string::npos) << why;
  const auto answer = ask(*launch, 4);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_NE(answer->degraded[0].why.find("given up"), std::string::npos);
}

// The client sees every token once, and the same ones as without a crash: what was generated
// before is gone through with the same kernels.
TEST_F(FailureRealTest, AnAnswerOutlivesItsMaster) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  const auto whole = ask(*launch, 32);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  EXPECT_TRUE(whole->replayed.empty());

  std::string streamed;
  const pid_t master = pid_of(*launch, kMaster);
  const auto answer = ask_and_then(
      *launch, 32, [&] { ::kill(master, SIGKILL); }, &streamed);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->replayed.size(), 1u);
  EXPECT_GE(answer->replayed[0].token, 3);
  EXPECT_NE(answer->replayed[0].why.find("signal 9"), std::string::npos);
  EXPECT_EQ(answer->token_ids, whole->token_ids);
  EXPECT_EQ(streamed, whole->text);
  EXPECT_EQ(answer->text, whole->text);
  EXPECT_TRUE(answer->degraded.empty());
}

TEST_F(FailureRealTest, AMasterKilledWhileIdleOrReadingIsReplacedUnseen) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  const auto whole = ask(*launch, 8);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  ::kill(pid_of(*launch, kMaster), SIGKILL);
  const auto waited = ask(*launch, 8);
  ASSERT_TRUE(waited.has_value()) << waited.error().message();
  EXPECT_EQ(waited->token_ids, whole->token_ids);

  std::jthread killer([&] {
    wait_for_state(*launch, kMaster, ProcessState::kReading);
    ::kill(pid_of(*launch, kMaster), SIGKILL);
  });
  const auto again = ask(*launch, 8);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->token_ids, whole->token_ids);
}

TEST_F(FailureRealTest, AConversationOutlivesItsMaster) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  const std::atomic<bool> never = false;
  const auto turn = [&](uint64_t conversation, const std::string& text) {
    AskOptions options{text, 8, {}};
    options.conversation = conversation;
    return launch->ask(
        options, [](std::string_view) {}, never);
  };
  const uint64_t first = launch->open_conversation({})->id;
  const uint64_t second = launch->open_conversation({})->id;
  for (const uint64_t conversation : {first, second})
    ASSERT_TRUE(turn(conversation, "Name the captain.").has_value());
  const auto whole = turn(first, "And the ferry?");
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  const pid_t master = pid_of(*launch, kMaster);
  ::kill(master, SIGKILL);
  const auto after = turn(second, "And the ferry?");
  ASSERT_TRUE(after.has_value()) << after.error().message();
  EXPECT_EQ(after->token_ids, whole->token_ids);
}

// A conversation whose K/V gave way to another one reads its text again, answers with the kernels
// that made them: drawn at a high temperature, the tokens would show the smallest difference.
TEST_F(FailureRealTest, AConversationThatIsReadAgainGoesOnAsIfItHadBeenKept) {
  const auto turns = [&](int32_t max_sequences, int64_t* reused) {
    LaunchSpec spec = topology(Placement::kProcesses);
    spec.max_seq_len = 512;
    spec.max_sequences = max_sequences;
    const auto launch = started(spec);
    std::vector<std::vector<int32_t>> answers;
    if (launch == nullptr) return answers;
    const std::atomic<bool> never = false;
    const uint64_t conversations[] = {launch->open_conversation({})->id,
                                      launch->open_conversation({})->id};
    for (const char* text : {"Describe the ferry.", "And its captain?", "And the fog?"})
      for (const uint64_t conversation : conversations) {
        AskOptions options{text, 40, {.temperature = 1.5f, .seed = 7 + conversation}};
        options.conversation = conversation;
        const auto answer = launch->ask(
            options, [](std::string_view) {}, never);
        EXPECT_TRUE(answer.has_value()) << answer.error().message();
        if (!answer) return answers;
        answers.push_back(answer->token_ids);
        *reused = answer->figures.at(0).reused_tokens;
      }
    return answers;
  };
  int64_t reused_kept = 0;
  int64_t reused_again = 0;
  const auto kept = turns(8, &reused_kept);
  const auto read_again = turns(1, &reused_again);
  EXPECT_GT(reused_kept, reused_again + 40);  // it really gave way
  EXPECT_EQ(kept, read_again);
}

TEST_F(FailureRealTest, AMasterThatIsGivenUpEndsTheAnswerWithAnError) {
  const auto launch = started(without_restarts());
  ASSERT_NE(launch, nullptr);
  const auto answer = ask_and_then(*launch, 48, [&] { ::kill(pid_of(*launch, kMaster), SIGKILL); });
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kLost);
  EXPECT_EQ(answer.error().where, "master");
  EXPECT_FALSE(ask(*launch, 4).has_value());
}

TEST_F(FailureRealTest, ASlaveThatFindsNoMemorySaysSoAndLivesOn) {
  const auto launch = started(topology(Placement::kProcesses));
  ASSERT_NE(launch, nullptr);
  const pid_t twin = pid_of(*launch, kTwin);
  const rlimit nothing_more{1 << 20, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(twin, RLIMIT_AS, &nothing_more, nullptr), 0);
  const auto answer = ask(*launch, 16);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "twin");
  EXPECT_NE(answer->degraded[0].why.find("memory"), std::string::npos) << answer->degraded[0].why;
  const rlimit enough{RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(twin, RLIMIT_AS, &enough, nullptr), 0);
  const auto next = ask(*launch, 16);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  EXPECT_TRUE(next->degraded.empty());
  EXPECT_EQ(pid_of(*launch, kTwin), twin);
}

TEST_F(FailureRealTest, TwoLaunchesSideBySideDoNotMeet) {
  const auto first = started(topology(Placement::kProcesses));
  const auto second = started(topology(Placement::kProcesses));
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const auto whole = ask(*first, 16);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  const auto answer = ask_and_then(*second, 16, [&] {
    for (const pid_t pid : first->pids()) ::kill(pid, SIGKILL);
  });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->token_ids, whole->token_ids);
  EXPECT_TRUE(answer->degraded.empty());
  EXPECT_TRUE(answer->replayed.empty());
}

}  // namespace
}  // namespace suture
