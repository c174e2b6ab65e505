// A launch that is asked for more than it takes, or for less time than it needs.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "actors/launch.h"
#include "launcher/manifest.h"

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";

class AdmissionRealTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = cached_model_path(*find_model(kModel), model_cache_folder());
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << path << " is not there: suture models pull " << kModel;
    ModelSpec master;
    master.name = "master";
    master.path = path;
    spec_.placement = Placement::kInProcess;
    spec_.max_seq_len = 512;
    spec_.max_sequences = 1;
    spec_.models = {master};
  }

  void start(int32_t max_queue) {
    spec_.max_queue = max_queue;
    auto launch = Launch::start(spec_, {});
    ASSERT_TRUE(launch.has_value()) << launch.error().message();
    launch_ = std::move(*launch);
  }

  static AskOptions question(double deadline_seconds = 0) {
    return {.text = "Tell me about lighthouses.",
            .max_tokens = 200,
            .deadline_seconds = deadline_seconds};
  }

  // While an answer is on its way.
  template <typename Act>
  void while_answering(const Act& act) {
    std::atomic<bool> cancelled = false;
    std::promise<void> begun;
    auto answering = std::async(std::launch::async, [&, first = true]() mutable {
      const auto on_text = [&](std::string_view) {
        if (std::exchange(first, false)) begun.set_value();
      };
      return launch_->ask(question(), on_text, cancelled);
    });
    begun.get_future().wait();
    act();
    cancelled.store(true);
    EXPECT_TRUE(answering.get().has_value());
  }

  LaunchSpec spec_;
  std::unique_ptr<Launch> launch_;
};

constexpr auto kIgnore = [](std::string_view) {};

TEST_F(AdmissionRealTest, OneMoreThanThereIsRoomForIsRefusedWithAHint) {
  ASSERT_NO_FATAL_FAILURE(start(0));
  while_answering([&] {
    const auto refused = launch_->ask(question(), kIgnore, false);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
    EXPECT_GT(refused.error().retry_after_seconds, 0);
    EXPECT_EQ(launch_->snapshot().requests, 1);
  });
  EXPECT_EQ(launch_->snapshot().requests, 0);
}

TEST_F(AdmissionRealTest, TheDeadlineOfOneThatWaitsIsAnError) {
  ASSERT_NO_FATAL_FAILURE(start(1));
  while_answering([&] {
    const auto late = launch_->ask(question(0.01), kIgnore, false);
    ASSERT_FALSE(late.has_value());
    EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  });
}

TEST_F(AdmissionRealTest, TheDeadlineOfAnAnswerEndsItAndKeepsWhatCame) {
  ASSERT_NO_FATAL_FAILURE(start(0));
  const auto whole = launch_->ask(question(), kIgnore, false);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  constexpr double kSeconds = 1;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
  const auto on_text = [&](std::string_view) { std::this_thread::sleep_until(deadline); };
  const auto ended = launch_->ask(question(kSeconds), on_text, false);
  ASSERT_TRUE(ended.has_value()) << ended.error().message();
  EXPECT_EQ(ended->reason, FinishReason::kDeadline);
  ASSERT_LT(ended->token_ids.size(), whole->token_ids.size());
  EXPECT_TRUE(
      std::equal(ended->token_ids.begin(), ended->token_ids.end(), whole->token_ids.begin()));
  EXPECT_GE(ended->seconds, kSeconds);
}

}  // namespace
}  // namespace suture
