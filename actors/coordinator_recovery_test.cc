// The coordinator when processes end and come back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

using CoordinatorRecoveryTest = CoordinatorTest;

TEST_F(CoordinatorRecoveryTest, WhenTheMasterIsGivenUpTheRequestEndsWithAnError) {
  join_all();
  ask();
  start();
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  const auto out = coordinator_.peer_ended({"m", "process exited (killed by signal 9)"});
  EXPECT_EQ(of_type<CancelRequest>(out).size(), 1u);
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->outcome.code, ErrorCode::kLost);
}

// A process that has ended and is being started again, after `tokens` of the answer.
PeerLoss loss(const std::string& name, std::vector<int32_t> tokens) {
  return {.name = name,
          .why = "process exited",
          .restarts = true,
          .delivered = {{.request = 1, .token_ids = std::move(tokens)}}};
}

// The answer goes on where it was, on the master that comes next, which reads its head anew.
TEST_F(CoordinatorRecoveryTest, TheNextMasterGoesOnWithTheAnswer) {
  join_all();
  ask();
  const GenerateRequest first = start();
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  EXPECT_TRUE(coordinator_.peer_ended(loss("m", {40, 41})).empty());
  EXPECT_FALSE(coordinator_.take_report().has_value());

  const auto back = coordinator_.joined("m");
  const auto reads = of_type<ReadRequest>(back);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].first, "m");
  EXPECT_EQ(reads[0].second.request, 0u);  // for all, not for this request
  const auto imports = of_type<ImportSlabs>(back);
  ASSERT_EQ(imports.size(), 1u);
  EXPECT_EQ(imports[0].second.owners, (std::vector<std::string>{"doc", "twin"}));
  const uint64_t new_key = reads[0].second.key;
  const auto starts = of_type<GenerateRequest>(coordinator_.read_opened("m", opened(new_key, "m")));
  ASSERT_EQ(starts.size(), 1u);
  const GenerateRequest& second = starts[0].second;
  EXPECT_EQ(second.generated, (std::vector<int32_t>{40, 41}));
  EXPECT_EQ(second.head_key, new_key);
  EXPECT_EQ(second.token_ids, first.token_ids);
  EXPECT_EQ(second.first_new_position, first.first_new_position);
  EXPECT_EQ(second.max_tokens, first.max_tokens);
  EXPECT_EQ(second.sources.size(), 2u);
  EXPECT_NE(second.attempt, first.attempt);

  // What the first master sent before its end comes too late.
  GenerateDone late;
  late.request = 1;
  late.attempt = first.attempt;
  coordinator_.generate_done(late);
  coordinator_.read_done("m", read_done(new_key, "m"));
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  EXPECT_FALSE(coordinator_.take_report().has_value());
  GenerateDone done;
  done.request = 1;
  done.attempt = second.attempt;
  coordinator_.generate_done(done);
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->outcome.failed);
  EXPECT_TRUE(report->degraded.empty());
  ASSERT_EQ(report->replayed.size(), 1u);
  EXPECT_EQ(report->replayed[0].token, 2);
}

// It was lost by the first master; the second cannot have it for some rows and not for others.
TEST_F(CoordinatorRecoveryTest, ASlaveThatWasLostBeforeTheMasterStaysOutOfTheAnswer) {
  join_all();
  ask();
  const GenerateRequest first = start();
  coordinator_.peer_ended(loss("doc", {40}));
  const auto again = of_type<ReadRequest>(coordinator_.joined("doc"));
  ASSERT_EQ(again.size(), 1u);
  coordinator_.read_opened("doc", opened(again[0].second.key, "doc"));
  coordinator_.peer_ended(loss("m", {40, 41, 42}));
  const auto reads = of_type<ReadRequest>(coordinator_.joined("m"));
  const auto starts =
      of_type<GenerateRequest>(coordinator_.read_opened("m", opened(reads[0].second.key, "m")));
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(starts[0].second.sources.size(), 1u);
  EXPECT_EQ(starts[0].second.sources[0].name, "twin");
  EXPECT_EQ(starts[0].second.first_new_position, first.first_new_position);
  GenerateDone done;
  done.request = 1;
  done.attempt = starts[0].second.attempt;
  coordinator_.generate_done(done);
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  coordinator_.read_done("m", read_done(reads[0].second.key, "m"));
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->degraded.size(), 1u);
  EXPECT_EQ(report->degraded[0].slave, "doc");
  EXPECT_EQ(report->degraded[0].token, 1);
}

TEST_F(CoordinatorRecoveryTest, AnAnswerThatWasCompleteNeedsNoOtherMaster) {
  join_all();
  ask();
  start();
  PeerLoss after = loss("m", {40, 41});
  after.delivered[0].finished = true;
  after.delivered[0].reason = FinishReason::kLength;
  coordinator_.peer_ended(after);
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->outcome.failed);
  EXPECT_EQ(report->reason, FinishReason::kLength);
}

TEST_F(CoordinatorRecoveryTest, AQuestionThatNoMasterSurvivesIsGivenUpBeforeTheLaunchIs) {
  join_all();
  ask();
  start();
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  const auto next_master = [&](int64_t tokens) {
    coordinator_.peer_ended(loss("m", std::vector<int32_t>(static_cast<size_t>(tokens), 40)));
    if (coordinator_.take_report()) return false;
    const auto reads = of_type<ReadRequest>(coordinator_.joined("m"));
    const uint64_t key = reads.at(0).second.key;
    return !of_type<GenerateRequest>(coordinator_.read_opened("m", opened(key, "m"))).empty();
  };
  EXPECT_TRUE(next_master(0));
  EXPECT_TRUE(next_master(0));
  EXPECT_TRUE(next_master(1));  // one token further
  EXPECT_TRUE(next_master(1));
  EXPECT_FALSE(next_master(1));
  // The next question is tried like any other.
  ask();
  const auto reads = of_type<ReadRequest>(coordinator_.joined("m"));
  ASSERT_EQ(reads.size(), 1u);
}

TEST_F(CoordinatorRecoveryTest, WhileTheMasterIsAwayRequestsWaitAndCanBeCancelled) {
  join_all();
  coordinator_.peer_ended(loss("m", {}));
  ask();
  coordinator_.read_opened("doc", opened(doc_key_, "doc"));
  EXPECT_TRUE(coordinator_.read_opened("twin", opened(twin_key_, "twin")).empty());
  EXPECT_EQ(of_type<CancelRequest>(coordinator_.cancel(1)).size(), 1u);  // the follower
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason, FinishReason::kCancelled);
}

TEST_F(CoordinatorRecoveryTest, ASlaveThatIsBackTakesPartInTheNextRequest) {
  join_all();
  coordinator_.peer_ended(loss("doc", {}));
  const auto back = coordinator_.joined("doc");
  const auto reads = of_type<ReadRequest>(back);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].first, "doc");
  EXPECT_NE(reads[0].second.key, doc_key_);
  const auto imports = of_type<ImportSlabs>(back);
  ASSERT_EQ(imports.size(), 1u);
  EXPECT_EQ(imports[0].second.owners, (std::vector<std::string>{"doc"}));
  doc_key_ = reads[0].second.key;
  ask();
  EXPECT_EQ(start().sources.size(), 2u);
}

}  // namespace
}  // namespace suture::coordinator_test
