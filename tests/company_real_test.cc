// Several clients of one launch at the same time, with real models and real processes: all are
// answered side by side, and each as if it were alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/test_real_launch.h"

namespace suture {
namespace {

// Where threads wait for each other; one that waits in vain goes on after a minute.
class Meeting {
 public:
  explicit Meeting(int expected) : missing_(expected) {}

  // Until all have come. True for the one that came last.
  bool come() {
    std::unique_lock lock(mutex_);
    const bool last = --missing_ == 0;
    if (last) all_came_.notify_all();
    all_met_ &= all_came_.wait_for(lock, std::chrono::minutes(1), [this] { return missing_ <= 0; });
    return last;
  }
  bool all_met() const {
    const std::lock_guard lock(mutex_);
    return all_met_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable all_came_;
  int missing_;
  bool all_met_ = true;
};

class CompanyRealTest : public RealLaunchTest {
 protected:
  void start_for(int32_t clients) {
    LaunchSpec spec = topology(Placement::kProcesses);
    spec.max_sequences = clients;
    spec.max_queue = 0;
    auto launch = start(spec, {.first_delay = std::chrono::milliseconds(1)}, SUTURE_BINARY);
    ASSERT_TRUE(launch.has_value()) << launch.error().message();
    launch_ = std::move(*launch);
  }

  static AskOptions question(size_t client) {
    // Longer than the master may run ahead of a client that does not read.
    return {.text = "Tell me a long story about lighthouse number " + std::to_string(client) + ".",
            .max_tokens = 80,
            .sampling = {.temperature = 1.2f, .seed = 100 + client}};
  }

  Result<Answer> ask(size_t client, const std::function<void(std::string_view)>& on_text) {
    const std::atomic<bool> never = false;
    return launch_->ask(question(client), on_text, never);
  }

  std::vector<Answer> alone(size_t clients) {
    std::vector<Answer> answers;
    for (size_t client = 0; client < clients; ++client) {
      auto answer = ask(client, [](std::string_view) {});
      EXPECT_TRUE(answer.has_value()) << answer.error().message();
      answers.push_back(answer.value_or(Answer()));
    }
    return answers;
  }

  // Asks all at once; at its third piece of text each waits until all have come so far. The last
  // one does `act`.
  std::vector<Answer> together(size_t clients, const std::function<void()>& act) {
    Meeting meeting(static_cast<int>(clients));
    std::vector<std::future<Result<Answer>>> asked;
    for (size_t client = 0; client < clients; ++client)
      asked.push_back(std::async(std::launch::async, [&, client] {
        int pieces = 0;
        return ask(client, [&](std::string_view) {
          if (++pieces == 3 && meeting.come()) act();
        });
      }));
    std::vector<Answer> answers;
    for (auto& one : asked) {
      auto answer = one.get();
      EXPECT_TRUE(answer.has_value()) << answer.error().message();
      answers.push_back(answer.value_or(Answer()));
    }
    EXPECT_TRUE(meeting.all_met()) << "they ran one after another";
    return answers;
  }

  std::unique_ptr<Launch> launch_;
};

TEST_F(CompanyRealTest, FourClientsStreamSideBySideAndEachGetsItsOwnAnswer) {
  ASSERT_NO_FATAL_FAILURE(start_for(4));
  const auto expected = alone(4);
  const auto answers = together(4, [] {});
  for (size_t client = 0; client < answers.size(); ++client) {
    EXPECT_EQ(answers[client].token_ids, expected[client].token_ids) << client;
    EXPECT_EQ(answers[client].text, expected[client].text) << client;
    EXPECT_TRUE(answers[client].degraded.empty());
  }
}

TEST_F(CompanyRealTest, AMasterThatIsKilledIsReplacedForAllThatRun) {
  ASSERT_NO_FATAL_FAILURE(start_for(3));
  const auto expected = alone(3);
  const auto answers =
      together(3, [this] { ::kill(launch_->snapshot().processes.at(0).pid, SIGKILL); });
  for (size_t client = 0; client < answers.size(); ++client) {
    EXPECT_EQ(answers[client].token_ids, expected[client].token_ids) << client;
    ASSERT_EQ(answers[client].replayed.size(), 1u) << client;
    EXPECT_GE(answers[client].replayed[0].token, 3);
    EXPECT_TRUE(answers[client].degraded.empty());
  }
}

// One client's slave is not the other's: both lose the process, and both are told.
TEST_F(CompanyRealTest, ASlaveThatIsKilledIsReportedToAllThatRun) {
  ASSERT_NO_FATAL_FAILURE(start_for(2));
  const auto answers =
      together(2, [this] { ::kill(launch_->snapshot().processes.at(1).pid, SIGKILL); });
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer.degraded.size(), 1u);
    EXPECT_EQ(answer.degraded[0].slave, "reader");
    EXPECT_NE(answer.degraded[0].why.find("signal 9"), std::string::npos);
  }
}

// What one client does with its answer is nothing to the others.
TEST_F(CompanyRealTest, OneThatIsCancelledLeavesTheOtherAlone) {
  ASSERT_NO_FATAL_FAILURE(start_for(2));
  const auto expected = alone(1);
  std::atomic<bool> cancelled = false;
  Meeting meeting(2);
  auto ending = std::async(std::launch::async, [&] {
    int pieces = 0;
    const auto on_text = [&](std::string_view) {
      if (++pieces != 3) return;
      meeting.come();
      cancelled.store(true);
    };
    return launch_->ask(question(1), on_text, cancelled);
  });
  int pieces = 0;
  const auto answer = ask(0, [&](std::string_view) {
    if (++pieces == 3) meeting.come();
  });
  const auto ended = ending.get();
  EXPECT_TRUE(meeting.all_met());
  ASSERT_TRUE(ended.has_value() && answer.has_value());
  EXPECT_EQ(ended->reason, FinishReason::kCancelled);
  EXPECT_EQ(answer->token_ids, expected.at(0).token_ids);
}

}  // namespace
}  // namespace suture
