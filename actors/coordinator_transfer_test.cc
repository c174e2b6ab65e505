// The coordinator with a slave that reads the master's text in its place.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

// A master with head {1, 2}, of whose text it reads the first 2 and the last 3 tokens itself.
CoordinatorSetup transfer_setup() {
  CoordinatorSetup setup;
  setup.spec.models = {model("m", Role::kMaster, SlavePosition::kAligned),
                       model("r", Role::kSlave, SlavePosition::kAligned)};
  FusionSpec& fusion = setup.spec.models[1].fusion;
  fusion.mode = FusionMode::kTransfer;
  fusion.sink = 2;
  fusion.reread = 3;
  setup.contexts = {{"m", {1, 2}}, {"r", {1, 2}, 0, {0}}};
  setup.master_layers = 1;
  setup.master_positions = 1000;
  setup.end_ids = {0};
  return setup;
}

class TransferTest : public testing::Test {
 protected:
  void join(const CoordinatorSetup& setup = transfer_setup()) {
    coordinator_.emplace(setup);
    EXPECT_TRUE(coordinator_->joined("m").empty());
    const auto reads = of_type<ReadRequest>(coordinator_->joined("r"));
    ASSERT_EQ(reads.size(), 1u) << "the master leaves its head to the slave";
    EXPECT_EQ(reads[0].first, "r");
    context_key_ = reads[0].second.key;
    coordinator_->read_opened("r", opened(context_key_, "r"));
    coordinator_->read_done("r", read_done(context_key_, "r"));
  }
  // What the slave is asked to read.
  ReadRequest ask(Question question) {
    const auto reads = of_type<ReadRequest>(coordinator_->ask(std::move(question)));
    EXPECT_EQ(reads.size(), 1u);
    return reads.empty() ? ReadRequest() : reads[0].second;
  }
  GenerateRequest open(const ReadRequest& read) {
    const auto out =
        of_type<GenerateRequest>(coordinator_->read_opened("r", opened(read.key, "r")));
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? GenerateRequest() : out[0].second;
  }

  std::optional<Coordinator> coordinator_;
  uint64_t context_key_ = 0;
};

TEST_F(TransferTest, TheSlaveReadsWhatTheMasterLeavesOut) {
  join();
  const ReadRequest read = ask(question_of(1, {7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(read.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
  EXPECT_EQ(read.capacity, 5);
  EXPECT_EQ(read.follow_ring, "");
  EXPECT_EQ(read.head_key, context_key_);
  EXPECT_EQ(read.head_entries, 2);
  const GenerateRequest request = open(read);
  EXPECT_EQ(request.token_ids, (std::vector<int32_t>{1, 2, 10, 11, 12}));
  EXPECT_EQ(request.whole_ids, (std::vector<int32_t>{1, 2, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(request.first_new_position, 8);
  EXPECT_EQ(request.head_entries, 0);
  ASSERT_EQ(request.own.size(), 2u);
  EXPECT_EQ(request.own[1].begin, 2);
  EXPECT_EQ(request.own[1].position_offset, 3);
  ASSERT_EQ(request.sources.size(), 1u);
  ASSERT_EQ(request.sources[0].segments.size(), 1u);
  EXPECT_EQ(request.sources[0].segments[0].begin, 2);
  EXPECT_EQ(request.sources[0].segments[0].end, 5);
  EXPECT_EQ(request.sources[0].segments[0].position_offset, 0);
}

TEST_F(TransferTest, AShortPromptIsReadByTheMasterAlone) {
  join();
  const auto out = coordinator_->ask(question_of(1, {7, 8, 9}));
  EXPECT_TRUE(of_type<ReadRequest>(out).empty());
  const auto starts = of_type<GenerateRequest>(out);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
  EXPECT_TRUE(starts[0].second.whole_ids.empty());
  EXPECT_TRUE(starts[0].second.sources.empty());
}

// What is scored follows the prompt, and is the master's own.
TEST_F(TransferTest, AScoredContinuationIsNoPartOfThePrompt) {
  join();
  Question scoring{.request = 1,
                   .tail_ids = {7, 8, 9, 10, 11, 12, 50, 51},
                   .sampling = {},
                   .conversation = 4,
                   .scored_tokens = 2};
  const ReadRequest read = ask(scoring);
  EXPECT_EQ(read.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
  const GenerateRequest request = open(read);
  EXPECT_EQ(request.token_ids, (std::vector<int32_t>{1, 2, 10, 11, 12, 50, 51}));
  EXPECT_EQ(request.keep_key, 0u);
  ReadDone done = read_done(read.key, "r");
  done.token_ids = read.token_ids;
  coordinator_->read_done("r", done);
  GenerateDone scored;
  scored.request = 1;
  scored.scores.resize(2);
  coordinator_->generate_done(scored);
  ASSERT_TRUE(coordinator_->take_report().has_value());
  // The slave goes on from what it has read for the last one.
  scoring.request = 3;
  scoring.tail_ids = {7, 8, 9, 10, 11, 12, 60};
  scoring.scored_tokens = 1;
  const ReadRequest next = ask(scoring);
  EXPECT_EQ(next.head_key, read.key);
  EXPECT_EQ(next.head_entries, 4);
}

TEST_F(TransferTest, ASlaveThatIsGoneLeavesTheTextToTheMaster) {
  join();
  coordinator_->peer_ended({"r", "process exited", false, {}});
  const auto out = coordinator_->ask(question_of(1, {7, 8, 9, 10, 11, 12}));
  const auto starts = of_type<GenerateRequest>(out);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.token_ids.size(), 8u);
  EXPECT_TRUE(starts[0].second.whole_ids.empty());
  GenerateDone done;
  done.request = 1;
  coordinator_->generate_done(done);
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->degraded.size(), 1u);
  EXPECT_EQ(report->degraded[0].why, "process exited");
}

TEST_F(TransferTest, OnFailureFailRefusesWhatNeedsTheSlave) {
  CoordinatorSetup setup = transfer_setup();
  setup.spec.models[1].on_failure = OnFailure::kFail;
  join(setup);
  coordinator_->peer_ended({"r", "process exited", false, {}});
  coordinator_->ask(question_of(1, {7, 8, 9, 10, 11, 12}));
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->outcome.code, ErrorCode::kLost);
  EXPECT_EQ(of_type<GenerateRequest>(coordinator_->ask(question_of(3, {7}))).size(), 1u);
}

// What the master's own tokens say by themselves: the text is neither read nor waited for.
TEST_F(TransferTest, ASilentSlaveLeavesTheTextOut) {
  CoordinatorSetup setup = transfer_setup();
  setup.spec.models[1].fusion.gain = -std::numeric_limits<double>::infinity();
  setup.spec.models[1].on_failure = OnFailure::kFail;
  join(setup);
  const auto out = coordinator_->ask(question_of(1, {7, 8, 9, 10, 11, 12}));
  EXPECT_TRUE(of_type<ReadRequest>(out).empty());
  const auto starts = of_type<GenerateRequest>(out);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.token_ids, (std::vector<int32_t>{1, 2, 10, 11, 12}));
  EXPECT_EQ(starts[0].second.own.at(1).position_offset, 3);
  EXPECT_TRUE(starts[0].second.sources.empty());
}

// Requests of which some need the slave and some do not are counted against each model's own room.
TEST_F(TransferTest, RequestsOfDifferentKindsRunSideBySide) {
  join();
  EXPECT_EQ(of_type<GenerateRequest>(coordinator_->ask(question_of(1, {7, 8}))).size(), 1u);
  const ReadRequest read = ask(question_of(3, {7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(open(read).token_ids.size(), 5u);
  EXPECT_EQ(of_type<GenerateRequest>(coordinator_->ask(question_of(5, {7, 8}))).size(), 1u);
}

}  // namespace
}  // namespace suture::coordinator_test
