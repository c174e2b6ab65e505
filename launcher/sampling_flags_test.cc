#include "launcher/sampling_flags.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

AskOptions parsed(const std::string& line, const AskOptions& base) {
  CLI::App app;
  SamplingFlags flags;
  add_sampling_flags(app, flags);
  app.parse(line);
  return apply(flags, base);
}

AskOptions topology() {
  LaunchSpec spec;
  spec.max_tokens = 7;
  spec.stop = {"END"};
  spec.sampling = {.temperature = 0.5f,
                   .top_k = 3,
                   .top_p = 0.9f,
                   .seed = 5,
                   .min_p = 0.1f,
                   .repetition_penalty = 1.2f,
                   .repetition_window = 9};
  return ask_defaults(spec);
}

TEST(SamplingFlagsTest, WhatIsNotGivenStaysAsTheTopologySays) {
  const AskOptions options = parsed("", topology());
  EXPECT_EQ(options.max_tokens, 7);
  EXPECT_EQ(options.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(options.sampling, topology().sampling);
  EXPECT_FALSE(options.ignore_eos);
  EXPECT_EQ(options.deadline_seconds, 0);
}

TEST(SamplingFlagsTest, EveryFlagReplacesItsValue) {
  const AskOptions options = parsed(
      "-n 1 --temperature 0 --top-k 0 --top-p 1 --min-p 0 --repetition-penalty 1 "
      "--repetition-window -1 --seed 0 --stop a --stop b --ignore-eos --deadline 1.5",
      topology());
  EXPECT_EQ(options.max_tokens, 1);
  const SamplingOptions expected{.temperature = 0,
                                 .top_k = 0,
                                 .top_p = 1,
                                 .seed = 0,
                                 .min_p = 0,
                                 .repetition_penalty = 1,
                                 .repetition_window = -1};
  EXPECT_EQ(options.sampling, expected);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"END", "a", "b"}));
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_EQ(options.deadline_seconds, 1.5);
}

}  // namespace
}  // namespace suture
