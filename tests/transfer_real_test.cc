// A real model continues what another process of it has read.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tests/test_real_launch.h"

namespace suture {
namespace {

const std::string kQuestion =
    "Harbour log. The ferry Aurelia left the northern pier at 07:40 with 212 passengers. Its "
    "captain, Ines Calder, reported fog over the sound and reduced speed to nine knots. The second "
    "engine was serviced on Tuesday, and the lifeboats were inspected by the coast guard. In one "
    "sentence, and with the numbers as they are given there: who was the captain of the ferry, and "
    "how many passengers did it carry?";

class TransferRealTest : public RealLaunchTest {
 protected:
  std::unique_ptr<Launch> started(bool transfers, double gain = 0) const {
    LaunchSpec spec = topology(Placement::kProcesses);
    spec.models.resize(transfers ? 2 : 1);
    if (transfers) {
      spec.models[1] = model("reader", Role::kSlave);
      spec.models[1].fusion.mode = FusionMode::kTransfer;
      spec.models[1].fusion.gain = gain;
    }
    auto launch = start(spec);
    EXPECT_TRUE(launch.has_value()) << launch.error().message();
    return launch ? std::move(*launch) : nullptr;
  }
  static double logprob(Launch& launch) {
    const std::atomic<bool> never = false;
    const auto scored = launch.score(
        {.text = kQuestion,
         .continuations = {"The captain was Ines Calder, and the ferry carried 212 passengers."}},
        never);
    EXPECT_TRUE(scored.has_value()) << scored.error().message();
    return scored ? scored->continuations.at(0).logprob() : std::nan("");
  }
};

TEST_F(TransferRealTest, TheSameModelContinuesWithoutReading) {
  const auto alone = started(false);
  const auto transferred = started(true);
  const auto text_only = started(true, -INFINITY);
  ASSERT_TRUE(alone && transferred && text_only);
  const double own = logprob(*alone);
  const double without = logprob(*text_only);
  EXPECT_LT(without, own - 2) << "the continuation asks for the text";
  // Rows are the master's own, but sums are merged in other pieces, which 8-bit activations turn
  // into differences of up to some hundredths of a nat for each of the tokens.
  EXPECT_LT(std::abs(logprob(*transferred) - own), 0.1 * (own - without)) << own << " " << without;

  const std::atomic<bool> never = false;
  AskOptions options;
  options.text = kQuestion;
  options.max_tokens = 8;
  const auto answer = transferred->ask(
      options, [](std::string_view) {}, never);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_TRUE(answer->degraded.empty());
  EXPECT_EQ(answer->figures.at(0).prompt_tokens, 36);
  EXPECT_GT(answer->figures.at(1).prompt_tokens, 60);
  const auto own_answer = alone->ask(
      options, [](std::string_view) {}, never);
  ASSERT_TRUE(own_answer.has_value());
  EXPECT_EQ(answer->token_ids, own_answer->token_ids);
}

}  // namespace
}  // namespace suture
