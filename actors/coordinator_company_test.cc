// The coordinator with several requests at once.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

GenerateDone answered(uint64_t request, uint64_t attempt = 0) {
  GenerateDone done;
  done.request = request;
  done.attempt = attempt;
  return done;
}

std::vector<uint64_t> started(const std::vector<Outgoing>& messages) {
  std::vector<uint64_t> requests;
  for (const auto& [name, request] : of_type<GenerateRequest>(messages))
    requests.push_back(request.request);
  return requests;
}

using Requests = std::vector<uint64_t>;

// A master alone, whose K/V is `max_sequences` x 64 tokens, in blocks of 32; its head takes one.
class CompanyTest : public testing::Test {
 protected:
  void start(int32_t max_sequences) {
    CoordinatorSetup alone = setup();
    alone.spec.models.resize(1);
    alone.contexts.resize(1);
    alone.spec.max_seq_len = 64;
    alone.spec.max_sequences = max_sequences;
    coordinator_.emplace(std::move(alone));
    join();
  }
  std::vector<Outgoing> join() {
    const uint64_t head = of_type<ReadRequest>(coordinator_->joined("m")).at(0).second.key;
    auto out = coordinator_->read_opened("m", opened(head, "m"));
    coordinator_->read_done("m", read_done(head, "m"));
    return out;
  }
  Requests ask(const Question& question) { return started(coordinator_->ask(question)); }
  Requests finish(uint64_t request, uint64_t attempt = 0) {
    const auto out = coordinator_->generate_done(answered(request, attempt));
    const auto report = coordinator_->take_report();
    EXPECT_TRUE(report.has_value());
    EXPECT_EQ(report.value_or(AnswerReport()).request, request);
    return started(out);
  }
  // The master ends, having delivered so many tokens of each request; gives those that the next one
  // starts with.
  Requests next_master(const std::vector<std::pair<uint64_t, size_t>>& tokens) {
    PeerLoss loss{.name = "m", .why = "process exited", .restarts = true, .delivered = {}};
    for (const auto& [request, count] : tokens)
      loss.delivered.push_back({.request = request, .token_ids = std::vector<int32_t>(count, 40)});
    coordinator_->peer_ended(loss);
    return started(join());
  }

  std::optional<Coordinator> coordinator_;
};

TEST_F(CompanyTest, RequestsRunSideBySideAndEndInAnyOrder) {
  start(4);
  EXPECT_EQ(ask(question_of(1)), Requests{1});
  EXPECT_EQ(ask(question_of(3)), Requests{3});
  finish(3);
  finish(1);
  EXPECT_FALSE(coordinator_->take_report().has_value());
}

// 3 blocks to use; a question of 3 tokens needs 2 of them for a while, one of 40 needs 3.
TEST_F(CompanyTest, OneWhoseKvDoesNotFitWaitsAndIsNotOvertaken) {
  start(2);
  EXPECT_EQ(ask(question_of(1)), Requests{1});
  EXPECT_EQ(ask(question_of(3, std::vector<int32_t>(40, 7))), Requests{});
  EXPECT_EQ(ask(question_of(5)), Requests{});
  EXPECT_EQ(finish(1), Requests{3});
  EXPECT_EQ(finish(3), Requests{5});
  finish(5);
}

TEST_F(CompanyTest, OneThatWaitsForKvCanBeCancelled) {
  start(2);
  ask(question_of(1));
  EXPECT_EQ(ask(question_of(3)), Requests{});
  EXPECT_TRUE(coordinator_->cancel(3).empty());
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->request, 3u);
  EXPECT_EQ(report->reason, FinishReason::kCancelled);
  EXPECT_EQ(finish(1), Requests{});
}

TEST_F(CompanyTest, SilentConversationsStayWhereTheirRoomWouldNotSuffice) {
  start(2);
  Question kept = question_of(1);
  kept.conversation = 4;
  ask(kept);
  GenerateDone done = answered(1);
  done.token_ids = {1, 2, 7, 8, 9, 40};
  coordinator_->generate_done(done);
  EXPECT_TRUE(coordinator_->take_report().has_value());
  ask(question_of(3));  // 2 blocks, and the one that is kept
  const auto out = coordinator_->ask(question_of(5));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(finish(3), Requests{5});
}

TEST_F(CompanyTest, TheNextMasterGoesOnWithAllAnswers) {
  start(4);
  ask(question_of(1));
  ask(question_of(3));
  PeerLoss loss{.name = "m", .why = "process exited", .restarts = true, .delivered = {}};
  loss.delivered = {{.request = 3, .token_ids = {50}}, {.request = 1, .token_ids = {40, 41}}};
  coordinator_->peer_ended(loss);
  const auto starts = of_type<GenerateRequest>(join());
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].second.generated, (std::vector<int32_t>{40, 41}));
  EXPECT_EQ(starts[1].second.generated, std::vector<int32_t>{50});
  finish(1, 1);
  finish(3, 1);
}

// Request 3 is the cause: it never comes further. Request 1 does not either, as long as they run
// side by side.
TEST_F(CompanyTest, TheOneThatNoMasterSurvivesIsToldFromItsNeighbours) {
  start(4);
  ask(question_of(1));
  ask(question_of(3));
  EXPECT_EQ(next_master({{1, 2}, {3, 2}}), (Requests{1, 3}));
  EXPECT_EQ(next_master({{1, 2}, {3, 2}}), Requests{1});
  EXPECT_EQ(ask(question_of(5)), Requests{});
  EXPECT_EQ(finish(1, 2), Requests{3});
  EXPECT_EQ(next_master({{3, 2}}), Requests{5});
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->request, 3u);
  EXPECT_EQ(report->outcome.code, ErrorCode::kLost);
  finish(5);
}

// Followers of two requests: what one of them does is no business of the other.
TEST_F(CoordinatorTest, EachRequestHasItsOwnFollowersAndLosses) {
  join_all();
  ask();
  start();
  const auto second = of_type<ReadRequest>(coordinator_.ask(question_of(3)));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].second.follow_ring, "answer/3");
  coordinator_.read_opened("twin", opened(second[0].second.key, "twin"));
  ReadDone failed = read_done(second[0].second.key, "twin");
  failed.outcome = Outcome::of(fail(ErrorCode::kOutOfMemory, "no room"));
  coordinator_.read_done("twin", failed);
  coordinator_.read_done("m", read_done(master_key_, "m"));
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  GenerateDone done = answered(3);
  done.degraded = {{"twin", 2, "stream closed"}};
  coordinator_.generate_done(done);
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->request, 3u);
  ASSERT_EQ(report->degraded.size(), 1u);
  EXPECT_EQ(report->degraded[0].why, "no room");
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  done = answered(1);
  done.degraded = {{"twin", 4, "stream closed"}};
  coordinator_.generate_done(done);
  const auto first = coordinator_.take_report();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->degraded.at(0).why, "stream closed");
}

}  // namespace
}  // namespace suture::coordinator_test
