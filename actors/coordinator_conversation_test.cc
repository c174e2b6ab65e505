// The coordinator over several turns of conversations.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

// Two turns of conversation 4 over all three models; the last is the one of the test.
class ConversationTest : public CoordinatorTest {
 protected:
  static Question turn(uint64_t request, std::vector<int32_t> tail) {
    return {.request = request,
            .tail_ids = std::move(tail),
            .max_tokens = 5,
            .sampling = {},
            .ring = "answer",
            .conversation = 4};
  }

  // Asks {7, 8, 9}; the answer is {40, 41}. Gives what is sent when it is complete.
  std::vector<Outgoing> first_turn() {
    join_all();
    twin_key_ = of_type<ReadRequest>(coordinator_.ask(turn(1, {7, 8, 9})))[0].second.key;
    const GenerateRequest request = start();
    answer_key_ = request.keep_key;
    EXPECT_NE(answer_key_, 0u);
    coordinator_.read_done("m", read_done(master_key_, "m"));
    coordinator_.read_done("doc", read_done(doc_key_, "doc"));
    ReadDone twin = read_done(twin_key_, "twin");
    twin.token_ids = {1, 2, 7, 8, 9, 40, 41};
    coordinator_.read_done("twin", twin);
    GenerateDone done;
    done.request = 1;
    done.token_ids = {1, 2, 7, 8, 9, 40, 41};
    auto out = coordinator_.generate_done(done);
    EXPECT_TRUE(coordinator_.take_report().has_value());
    return out;
  }

  uint64_t answer_key_ = 0;
};

TEST_F(ConversationTest, TheNextTurnReadsOnlyWhatIsNew) {
  EXPECT_TRUE(of_type<DropStream>(first_turn()).empty());
  const auto reads = of_type<ReadRequest>(coordinator_.ask(turn(3, {7, 8, 9, 40, 41, 50, 51})));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.head_key, twin_key_);
  EXPECT_EQ(reads[0].second.head_entries, 7);
  EXPECT_EQ(reads[0].second.token_ids.size(), 9u);
  const uint64_t second_twin = reads[0].second.key;
  const auto starts =
      of_type<GenerateRequest>(coordinator_.read_opened("twin", opened(second_twin, "twin")));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.head_key, answer_key_);
  EXPECT_EQ(starts[0].second.head_entries, 7);
  EXPECT_EQ(starts[0].second.first_new_position, 12);  // 2 + 3 of the document + 7

  // The streams of the turn before go once the new ones are complete.
  ReadDone twin = read_done(second_twin, "twin");
  coordinator_.read_done("twin", twin);
  GenerateDone done;
  done.request = 3;
  done.token_ids = starts[0].second.token_ids;
  const auto drops = of_type<DropStream>(coordinator_.generate_done(done));
  ASSERT_EQ(drops.size(), 2u);
  EXPECT_EQ(drops[0].second.key, twin_key_);
  EXPECT_EQ(drops[1].second.key, answer_key_);
}

// Whoever has to read it again is told which of it are answers.
TEST_F(ConversationTest, EarlierAnswersAreNamed) {
  first_turn();
  Question next = turn(3, {7, 8, 9, 40, 41, 50, 51});
  next.answers = {{3, 5}};
  const auto reads = of_type<ReadRequest>(coordinator_.ask(next));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.answers, (std::vector<AnswerRun>{{5, 7}}));  // behind the head of 2
  const auto starts = of_type<GenerateRequest>(
      coordinator_.read_opened("twin", opened(reads[0].second.key, "twin")));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.answers, (std::vector<AnswerRun>{{5, 7}}));
}

TEST_F(ConversationTest, HiddenTokensAreLeftBehind) {
  first_turn();
  // Token 41 belonged to a stop string; the history goes on differently.
  const auto reads = of_type<ReadRequest>(coordinator_.ask(turn(3, {7, 8, 9, 40, 50})));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.head_entries, 6);
}

TEST_F(ConversationTest, AnotherConversationBeginsAtTheHead) {
  first_turn();
  Question other = turn(3, {7, 8, 9, 40});
  other.conversation = 5;
  const auto reads = of_type<ReadRequest>(coordinator_.ask(other));
  EXPECT_EQ(reads[0].second.head_key, 0u);
  const auto starts = of_type<GenerateRequest>(
      coordinator_.read_opened("twin", opened(reads[0].second.key, "twin")));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.head_key, master_key_);
  EXPECT_EQ(starts[0].second.head_entries, 2);
}

TEST_F(ConversationTest, AFailedTurnLeavesTheConversationAsItWas) {
  first_turn();
  const uint64_t second_twin =
      of_type<ReadRequest>(coordinator_.ask(turn(3, {7, 8, 9, 40, 41, 50})))[0].second.key;
  coordinator_.read_opened("twin", opened(second_twin, "twin"));
  coordinator_.read_done("twin", read_done(second_twin, "twin"));
  GenerateDone done;
  done.request = 3;
  done.reason = FinishReason::kCancelled;
  const auto drops = of_type<DropStream>(coordinator_.generate_done(done));
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].second.key, second_twin);
  EXPECT_TRUE(coordinator_.take_report().has_value());
  const auto reads = of_type<ReadRequest>(coordinator_.ask(turn(5, {7, 8, 9, 40, 41, 60})));
  EXPECT_EQ(reads[0].second.head_key, twin_key_);
}

TEST_F(ConversationTest, ADocumentThatIsLostKeepsItsPlaceInThePositions) {
  first_turn();
  coordinator_.peer_ended({"doc", "process exited"});
  const auto reads = of_type<ReadRequest>(coordinator_.ask(turn(3, {7, 8, 9, 40, 41, 50})));
  const auto starts = of_type<GenerateRequest>(
      coordinator_.read_opened("twin", opened(reads[0].second.key, "twin")));
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(starts[0].second.sources.size(), 1u);
  EXPECT_EQ(starts[0].second.sources[0].name, "twin");
  EXPECT_EQ(starts[0].second.first_new_position, 11);  // 2 + the 3 that were there + 6
}

// 32 tokens each: a head of 2 and one turn of 10 fit twice, with what the next turn needs only
// once.
TEST(ConversationRoomTest, SilentConversationsGiveWay) {
  CoordinatorSetup small = setup();
  small.spec.models.resize(1);
  small.contexts.resize(1);
  small.spec.max_seq_len = 64;
  small.spec.max_sequences = 2;  // 4 blocks: one of the head, three to use
  Coordinator coordinator(small);
  const uint64_t head = of_type<ReadRequest>(coordinator.joined("m"))[0].second.key;
  coordinator.read_opened("m", opened(head, "m"));
  coordinator.read_done("m", read_done(head, "m"));
  std::map<uint64_t, uint64_t> kept;
  const auto turn = [&](uint64_t request, uint64_t conversation) {
    Question question{.request = request,
                      .tail_ids = {7, 8, 9},
                      .max_tokens = 5,
                      .sampling = {},
                      .ring = "answer",
                      .conversation = conversation};
    auto out = coordinator.ask(question);
    const auto starts = of_type<GenerateRequest>(out);
    EXPECT_EQ(starts.size(), 1u);
    kept[conversation] = starts[0].second.keep_key;
    GenerateDone done;
    done.request = request;
    done.token_ids = {1, 2, 7, 8, 9, 40};
    coordinator.generate_done(done);
    EXPECT_TRUE(coordinator.take_report().has_value());
    return of_type<DropStream>(out);
  };
  EXPECT_TRUE(turn(1, 4).empty());
  EXPECT_TRUE(turn(3, 5).empty());
  const auto dropped = turn(5, 6);  // 2 for the turn, 2 kept: one too many
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].second.key, kept[4]);
  // Its next turn reads all of its text again.
  Question next{.request = 7,
                .tail_ids = {7, 8, 9, 40, 50},
                .max_tokens = 5,
                .sampling = {},
                .ring = "answer",
                .conversation = 4};
  const auto starts = of_type<GenerateRequest>(coordinator.ask(next));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].second.head_key, head);
}

TEST_F(ConversationTest, AReleasedConversationKeepsNothing) {
  first_turn();
  const auto drops = of_type<DropStream>(coordinator_.release(4));
  ASSERT_EQ(drops.size(), 2u);
  EXPECT_EQ(drops[0].second.key, answer_key_);
  EXPECT_EQ(drops[1].second.key, twin_key_);
  EXPECT_TRUE(coordinator_.release(4).empty());
}

TEST_F(ConversationTest, OneThatNoLongerFitsSaysWhatToDo) {
  first_turn();
  const auto out = coordinator_.ask(turn(3, std::vector<int32_t>(8190, 7)));
  EXPECT_TRUE(out.empty());
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->outcome.failed);
  EXPECT_NE(report->outcome.what.find("8197"), std::string::npos) << report->outcome.what;
  EXPECT_NE(report->outcome.remedy.find("/clear"), std::string::npos);
  // The master has 1000 positions.
  const auto reads = of_type<ReadRequest>(coordinator_.ask(turn(5, std::vector<int32_t>(999, 7))));
  const auto cancels = coordinator_.read_opened("twin", opened(reads[0].second.key, "twin"));
  EXPECT_EQ(of_type<CancelRequest>(cancels).size(), 1u);
  coordinator_.read_done("twin", read_done(reads[0].second.key, "twin"));
  const auto second = coordinator_.take_report();
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second->outcome.remedy.find("/clear"), std::string::npos);
}

}  // namespace
}  // namespace suture::coordinator_test
