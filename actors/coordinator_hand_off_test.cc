// The coordinator with slaves that answer in words.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

using Ids = std::vector<int32_t>;

// A master with head {1, 2}, a reader and an aligned slave; these answer in words.
CoordinatorSetup words_setup() {
  CoordinatorSetup words = setup();
  for (const size_t slave : {1, 2}) {
    words.spec.models[slave].fusion.mode = FusionMode::kText;
    words.spec.models[slave].fusion.draft = 4;
    words.contexts[slave].other_vocabulary = true;
    words.contexts[slave].end_ids = {50};
  }
  words.contexts[2].head_ids = {40, 41};
  return words;
}

// Each slave is asked everything that it reads.
Question hand_off(uint64_t request = 1) {
  return {.request = request,
          .sampling = {},
          .ring = {},
          .draft_questions = {{"doc", {1, 2, 30, 31, 32, 60}}, {"twin", {40, 41, 70, 71}}},
          .hand_off = true};
}

class HandOffsTest : public testing::Test {
 protected:
  void begin(CoordinatorSetup words = words_setup()) {
    coordinator_.emplace(std::move(words));
    coordinator_->joined("m");
    coordinator_->joined("twin");
    joined_ = coordinator_->joined("doc");
    for (const auto& [name, read] : of_type<ReadRequest>(joined_)) {
      context_keys_[name] = read.key;
      coordinator_->read_opened(name, opened(read.key, name));
      coordinator_->read_done(name, read_done(read.key, name));
    }
  }
  void ask(Question asked = hand_off()) {
    asked_.clear();
    last_ = coordinator_->ask(std::move(asked));
    for (const auto& [name, read] : of_type<ReadRequest>(last_)) asked_[name] = read;
  }
  void answer(const std::string& name, const Ids& said) {
    ReadDone done = read_done(asked_.at(name).key, name);
    done.figures.prefill_seconds = 0.5;
    done.draft.token_ids = said;
    done.draft.seconds = 0.25;
    last_ = coordinator_->read_done(name, done);
  }
  void answer_with_error(const std::string& name, ErrorCode code, const std::string& why) {
    ReadDone done = read_done(asked_.at(name).key, name);
    done.outcome = Outcome::of(fail(code, why, name));
    last_ = coordinator_->read_done(name, done);
  }

  std::optional<Coordinator> coordinator_;
  std::map<std::string, uint64_t> context_keys_;
  std::map<std::string, ReadRequest> asked_;
  std::vector<Outgoing> joined_, last_;
};

TEST_F(HandOffsTest, IsReportedWhenAllHaveAnswered) {
  begin();
  ask();
  ASSERT_EQ(asked_.size(), 2u) << "the master reads nothing";
  EXPECT_EQ(asked_["doc"].token_ids, (Ids{1, 2, 30, 31, 32, 60}));
  EXPECT_EQ(asked_["doc"].head_key, context_keys_["doc"]);
  EXPECT_EQ(asked_["doc"].draft.tokens, 4);
  EXPECT_EQ(asked_["doc"].draft.end_ids, Ids{50});
  EXPECT_EQ(asked_["doc"].text_of, "") << "the tokens are its own";
  EXPECT_EQ(asked_["twin"].token_ids, (Ids{40, 41, 70, 71}));
  EXPECT_EQ(asked_["twin"].head_key, context_keys_["twin"]);
  EXPECT_EQ(asked_["twin"].text_of, "");
  answer("twin", {80});
  EXPECT_FALSE(coordinator_->take_report().has_value());
  answer("doc", {90, 91});
  EXPECT_TRUE(of_type<GenerateRequest>(last_).empty());
  EXPECT_EQ(of_type<DropStream>(last_).size(), 2u);
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->outcome.failed);
  EXPECT_EQ(report->reason, FinishReason::kStop);
  EXPECT_TRUE(report->degraded.empty());
  ASSERT_EQ(report->drafts.size(), 2u);
  EXPECT_EQ(report->drafts[0].slave, "doc");
  EXPECT_EQ(report->drafts[0].token_ids, (Ids{90, 91}));
  EXPECT_EQ(report->drafts[0].seconds, 0.75) << "reading and speaking";
}

TEST_F(HandOffsTest, OtherRequestsGoOnAsIfTheyWereNotThere) {
  begin();
  for (const auto& [name, import] : of_type<ImportSlabs>(joined_))
    EXPECT_TRUE(import.owners.empty()) << "words are in no slab";
  coordinator_->peer_ended({"doc", "killed", true, {}});
  last_ = coordinator_->ask(question());
  EXPECT_TRUE(of_type<ReadRequest>(last_).empty());
  const auto started = of_type<GenerateRequest>(last_);
  ASSERT_EQ(started.size(), 1u);
  EXPECT_TRUE(started[0].second.sources.empty());
  EXPECT_EQ(started[0].second.first_new_position, 5);
  coordinator_->generate_done({.request = 1});
  EXPECT_TRUE(coordinator_->take_report()->degraded.empty());
}

TEST_F(HandOffsTest, TheMasterDoesNotWaitForWhatTheyRead) {
  coordinator_.emplace(words_setup());
  for (const char* name : {"m", "twin"}) coordinator_->joined(name);
  for (const auto& [name, read] : of_type<ReadRequest>(coordinator_->joined("doc"))) {
    if (name != "m") continue;
    coordinator_->read_opened(name, opened(read.key, name));
    coordinator_->read_done(name, read_done(read.key, name));
  }
  EXPECT_EQ(of_type<GenerateRequest>(coordinator_->ask(question())).size(), 1u);
  coordinator_->generate_done({.request = 1});
  EXPECT_TRUE(coordinator_->take_report().has_value());
}

TEST_F(HandOffsTest, ASlaveWithoutAContextReadsItAll) {
  CoordinatorSetup bare = words_setup();
  bare.contexts[2].head_ids.clear();
  begin(bare);
  ask();
  EXPECT_EQ(asked_.at("twin").head_key, 0u);
  EXPECT_EQ(asked_.at("twin").token_ids, (Ids{40, 41, 70, 71}));
}

TEST_F(HandOffsTest, WhoIsLostBeforeOrMeanwhileIsNotWaitedFor) {
  begin();
  coordinator_->peer_ended({"doc", "killed", true, {}});
  ask();
  ASSERT_EQ(asked_.size(), 1u);
  coordinator_->joined("doc");  // again, too late
  last_ = coordinator_->peer_ended({"twin", "hung", false, {}});
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->outcome.failed);
  EXPECT_TRUE(report->drafts.empty());
  ASSERT_EQ(report->degraded.size(), 2u);
  EXPECT_EQ(report->degraded[0].slave, "doc");
  EXPECT_EQ(report->degraded[0].why, "killed");
  EXPECT_EQ(report->degraded[1].slave, "twin");
  EXPECT_EQ(report->degraded[1].why, "hung");
}

TEST_F(HandOffsTest, WhatWasSaidStaysWhenTheSlaveIsLost) {
  begin();
  ask();
  answer("doc", {90});
  coordinator_->peer_ended({"doc", "killed", false, {}});
  answer_with_error("twin", ErrorCode::kOutOfMemory, "no room");
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->drafts.size(), 1u);
  EXPECT_EQ(report->drafts[0].token_ids, Ids{90});
  ASSERT_EQ(report->degraded.size(), 1u);
  EXPECT_EQ(report->degraded[0].slave, "twin");
  EXPECT_EQ(report->degraded[0].why, "no room");
}

// The master's death costs it nothing.
TEST_F(HandOffsTest, NeedsNoMaster) {
  begin();
  coordinator_->peer_ended({"m", "killed", false, {}});
  ask();
  answer("doc", {90});
  answer("twin", {80});
  EXPECT_EQ(coordinator_->take_report()->drafts.size(), 2u);
}

TEST_F(HandOffsTest, CancellingEndsThoseThatHaveNotAnswered) {
  begin();
  ask();
  answer("doc", {90});
  std::set<uint64_t> told;
  for (const auto& [name, cancel] : of_type<CancelRequest>(coordinator_->cancel(1)))
    told.insert(cancel.request);
  EXPECT_TRUE(told.contains(asked_["twin"].key));
  EXPECT_FALSE(coordinator_->take_report().has_value()) << "it has not ended yet";
  answer_with_error("twin", ErrorCode::kCancelled, "the request was cancelled");
  const auto report = coordinator_->take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason, FinishReason::kCancelled);
  ASSERT_EQ(report->drafts.size(), 1u) << "what was said until then";
  EXPECT_TRUE(report->degraded.empty()) << "nobody was lost";
}

// K/V is reserved with the slaves alone.
TEST_F(HandOffsTest, WaitsForRoomWithTheSlaves) {
  CoordinatorSetup narrow = words_setup();
  narrow.spec.max_seq_len = 64;
  narrow.spec.max_sequences = 1;
  begin(narrow);
  ask(hand_off(1));
  ASSERT_EQ(asked_.size(), 2u);
  const auto first = asked_;
  for (uint64_t request = 3; request < 40; request += 2) ask(hand_off(request));
  EXPECT_TRUE(asked_.empty());
  asked_ = first;
  answer("doc", {90});
  answer("twin", {80});
  EXPECT_FALSE(of_type<ReadRequest>(last_).empty()) << "the next one has its turn";
}

TEST_F(HandOffsTest, WhoIsSilencedIsNotAsked) {
  CoordinatorSetup silent = words_setup();
  silent.spec.models[2].fusion.gain = -std::numeric_limits<double>::infinity();
  begin(silent);
  ask();
  EXPECT_EQ(asked_.size(), 1u);
  answer("doc", {90});
  EXPECT_TRUE(coordinator_->take_report()->degraded.empty());
}

}  // namespace
}  // namespace suture::coordinator_test
