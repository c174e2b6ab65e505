// Whole launches of a real model: same bits wherever the actors run, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>

#include "actors/launch.h"
#include "launcher/manifest.h"
#include "tests/test_processes.h"
#include "tests/test_real_launch.h"

namespace suture {
namespace {

using LaunchRealTest = RealLaunchTest;

TEST_F(LaunchRealTest, OneProcessAndThreeProcessesGiveTheSameTokens) {
  auto processes = start(topology(Placement::kProcesses));
  ASSERT_TRUE(processes.has_value()) << processes.error().message();
  EXPECT_EQ((*processes)->pids().size(), 3u);
  const auto first = ask(**processes, 24);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  const auto again = ask(**processes, 24);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->token_ids, first->token_ids);
  EXPECT_TRUE(first->degraded.empty());
  ASSERT_EQ(first->figures.size(), 3u);
  EXPECT_GT(first->figures[0].kv_bytes_read, 0);
  EXPECT_GT(first->figures[1].prompt_tokens, 50);
  processes->reset();

  auto in_process = start(topology(Placement::kInProcess));
  ASSERT_TRUE(in_process.has_value()) << in_process.error().message();
  const auto same = ask(**in_process, 24);
  ASSERT_TRUE(same.has_value()) << same.error().message();
  EXPECT_EQ(same->token_ids, first->token_ids);
  EXPECT_EQ(same->text, first->text);
}

// Counts what the first request had to make that later ones found ready.
TEST_F(LaunchRealTest, AfterWarmUpTheFirstRequestBuildsNothing) {
  for (const bool warm_up : {true, false}) {
    LaunchSpec spec = topology(Placement::kProcesses);
    spec.warm_up = warm_up;
    auto launch = start(spec);
    ASSERT_TRUE(launch.has_value()) << launch.error().message();
    const auto first = ask(**launch, 8);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    ASSERT_EQ(first->figures.size(), 3u);
    for (const ProcessFigures& figures : first->figures) {
      if (warm_up)
        EXPECT_EQ(figures.lazily_built, 0) << figures.name;
      else
        EXPECT_GT(figures.lazily_built, 0) << figures.name;
    }
    const auto second = ask(**launch, 8);
    ASSERT_TRUE(second.has_value()) << second.error().message();
    for (const ProcessFigures& figures : second->figures)
      EXPECT_EQ(figures.lazily_built, 0) << figures.name;
  }
}

TEST_F(LaunchRealTest, NoProcessOutlivesItsLaunch) {
  auto launch = start(topology(Placement::kProcesses));
  ASSERT_TRUE(launch.has_value()) << launch.error().message();
  const auto pids = (*launch)->pids();
  launch->reset();
  for (const pid_t pid : pids) EXPECT_TRUE(process_ends(pid)) << pid;
}

TEST_F(LaunchRealTest, AModelThatCannotBeLoadedIsReportedWithItsReason) {
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.models[2].device = "cuda:7";
  const auto launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_EQ(launch.error().code, ErrorCode::kUnsupported) << launch.error().message();
}

TEST_F(LaunchRealTest, WhatCannotRunIsRefusedBeforeAnythingStarts) {
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.models[2].documents = spec.models[1].documents;
  auto launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_EQ(launch.error().where, "twin");
  EXPECT_NE(launch.error().what.find("aligned"), std::string::npos) << launch.error().what;

  spec = topology(Placement::kProcesses);
  spec.models[1].documents.clear();
  launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_EQ(launch.error().where, "reader");

  spec = topology(Placement::kProcesses);
  spec.models[1].fusion.layer_gain = {0, 0, 0};
  launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_NE(launch.error().what.find("30 layers"), std::string::npos) << launch.error().what;

  spec = topology(Placement::kProcesses);
  spec.max_seq_len = 32;
  launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_NE(launch.error().what.find("max_seq_len is 32"), std::string::npos);
}

TEST_F(LaunchRealTest, ModelsThatDoNotFitAreRefusedWithBothValues) {
  constexpr const char* kOther = "qwen2.5-coder-0.5b-instruct";
  const auto other = cached_model_path(*find_model(kOther), model_cache_folder());
  if (!std::filesystem::exists(other)) GTEST_SKIP() << other << " is not there";
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.models[1].path = other;
  const auto launch = start(spec);
  ASSERT_FALSE(launch.has_value());
  EXPECT_EQ(launch.error().code, ErrorCode::kIncompatible);
  const std::string what = launch.error().message();
  EXPECT_NE(what.find("30"), std::string::npos) << what;  // layers of the master
  EXPECT_NE(what.find("24"), std::string::npos) << what;  // and of the slave
}

TEST_F(LaunchRealTest, ALoneMasterAtTheSamePositionsIsWhatMinusInfinityLeaves) {
  LaunchSpec spec = topology(Placement::kProcesses);
  spec.models.erase(spec.models.begin() + 1);
  auto with_twin = spec;
  with_twin.models[1].fusion.gain = -std::numeric_limits<double>::infinity();
  auto alone = spec;
  alone.models.pop_back();
  auto first = start(with_twin);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  const auto stitched = ask(**first, 24);
  first->reset();
  auto second = start(alone);
  ASSERT_TRUE(second.has_value()) << second.error().message();
  const auto by_itself = ask(**second, 24);
  ASSERT_TRUE(stitched.has_value() && by_itself.has_value());
  EXPECT_EQ(stitched->token_ids, by_itself->token_ids);
}

TEST_F(LaunchRealTest, CancellingKeepsWhatCame) {
  auto launch = start(topology(Placement::kProcesses));
  ASSERT_TRUE(launch.has_value()) << launch.error().message();
  std::atomic<bool> cancelled = false;
  const auto answer = (*launch)->ask(
      {"Tell me about ferries.", 200, {}}, [&](std::string_view) { cancelled = true; }, cancelled);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->reason, FinishReason::kCancelled);
  EXPECT_GE(answer->token_ids.size(), 1u);
  EXPECT_LT(answer->token_ids.size(), 200u);
}

}  // namespace
}  // namespace suture
