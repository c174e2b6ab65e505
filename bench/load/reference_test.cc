#include "bench/load/reference.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

Answer alone() {
  Answer answer;
  answer.text = "one two three";
  answer.token_ids = {1, 2, 3};
  answer.reason = FinishReason::kStop;
  answer.prompt_tokens = 20;
  return answer;
}

LoadOutcome answered(const Answer& answer, Whim whim = Whim::kNone) {
  LoadOutcome outcome;
  outcome.interference.whim = whim;
  outcome.answer = answer;
  outcome.text = answer.text;
  return outcome;
}

LoadOutcome failed(Error error, Whim whim) {
  LoadOutcome outcome;
  outcome.interference.whim = whim;
  outcome.error = std::move(error);
  return outcome;
}

Answer ended(FinishReason reason) {
  Answer answer = alone();
  answer.text = "one two";
  answer.token_ids = {1, 2};
  answer.reason = reason;
  return answer;
}

TEST(LoadReferenceTest, TheSameAnswerHasNoFault) {
  EXPECT_EQ(fault_of(answered(alone()), alone()), "");
}

TEST(LoadReferenceTest, EveryDifferenceIsAFault) {
  const auto spoilt = [](auto spoil) {
    LoadOutcome outcome = answered(alone());
    spoil(outcome);
    return fault_of(outcome, alone());
  };
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->token_ids[1] = 9; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->token_ids.pop_back(); }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->reason = FinishReason::kLength; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->reason = FinishReason::kCancelled; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->prompt_tokens = 21; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->text = "one"; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.text = "another's"; }), "");
  EXPECT_NE(spoilt([](LoadOutcome& o) { o.answer->degraded = {{"doc", 1, "lost"}}; }), "");
}

TEST(LoadReferenceTest, WhatWasEndedEarlyIsTheBeginning) {
  for (const auto& [whim, reason] : {std::pair(Whim::kCancel, FinishReason::kCancelled),
                                     std::pair(Whim::kDeadline, FinishReason::kDeadline)}) {
    EXPECT_EQ(fault_of(answered(ended(reason), whim), alone()), "");
    EXPECT_EQ(fault_of(answered(alone(), whim), alone()), "");  // it came too late
    EXPECT_NE(fault_of(answered(ended(reason), Whim::kNone), alone()), "");
    Answer other = ended(reason);
    other.token_ids = {1, 3};
    EXPECT_NE(fault_of(answered(other, whim), alone()), "");
  }
  EXPECT_NE(fault_of(answered(ended(FinishReason::kStop), Whim::kCancel), alone()), "");
  LoadOutcome hung_up;
  hung_up.interference.whim = Whim::kHangUp;
  hung_up.text = "one t";
  EXPECT_EQ(fault_of(hung_up, alone()), "");
  hung_up.text = "two";
  EXPECT_NE(fault_of(hung_up, alone()), "");
}

TEST(LoadReferenceTest, AConversationThatWasReadAgainGoesOnAsAlone) {
  Answer first = alone();
  first.figures = {{.name = "m", .role = "master", .prompt_tokens = 5, .reused_tokens = 15}};
  Answer again = first;
  EXPECT_FALSE(read_again(answered(again), first));
  again.figures[0].reused_tokens = 10;
  EXPECT_TRUE(read_again(answered(again), first));
  EXPECT_EQ(fault_of(answered(again), first), "");
  again.token_ids[1] = 9;
  EXPECT_NE(fault_of(answered(again), first), "");
}

TEST(LoadReferenceTest, OnlyErrorsThatWereAskedForAreNone) {
  const Error busy{ErrorCode::kBusy, "full", "launch", "", 2};
  EXPECT_EQ(fault_of(failed(busy, Whim::kNone), alone()), "");
  EXPECT_TRUE(refused(failed(busy, Whim::kNone)));
  const Error no_hint{ErrorCode::kBusy, "full", "launch", ""};
  EXPECT_NE(fault_of(failed(no_hint, Whim::kNone), alone()), "");
  EXPECT_FALSE(refused(failed(no_hint, Whim::kNone)));
  const Error late{ErrorCode::kTimeout, "late", "launch", ""};
  EXPECT_EQ(fault_of(failed(late, Whim::kDeadline), alone()), "");
  EXPECT_NE(fault_of(failed(late, Whim::kNone), alone()), "");
  const Error silent{ErrorCode::kTimeout, "silent", "client", ""};
  EXPECT_NE(fault_of(failed(silent, Whim::kDeadline), alone()), "");
  EXPECT_NE(fault_of(failed({ErrorCode::kLost, "gone", "", ""}, Whim::kHangUp), alone()), "");
}

}  // namespace
}  // namespace suture
