// The coordinator with slaves that say something by themselves before the master answers.
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

// A master with head {1, 2}, a document reader and an aligned slave, which both draft.
CoordinatorSetup draft_setup() {
  CoordinatorSetup drafting = setup();
  drafting.spec.models[1].fusion.draft = 4;
  drafting.spec.models[2].fusion.draft = 6;
  drafting.contexts[1].end_ids = {50};
  return drafting;
}

class DraftsTest : public testing::Test {
 protected:
  void begin(CoordinatorSetup drafting = draft_setup()) {
    coordinator_.emplace(std::move(drafting));
    coordinator_->joined("m");
    coordinator_->joined("twin");
    for (const auto& [name, read] : of_type<ReadRequest>(coordinator_->joined("doc"))) {
      context_keys_[name] = read.key;
      coordinator_->read_opened(name, opened(read.key, name));
      coordinator_->read_done(name, read_done(read.key, name));
    }
  }
  // {7, 8, 9}, of which the last token opens the answer. What is read is opened.
  void ask(Question asked = question()) {
    for (const auto& [name, read] : of_type<ReadRequest>(coordinator_->ask(std::move(asked)))) {
      (read.draft.tokens > 0 ? drafts_ : reads_)[name] = read;
      if (read.draft.tokens == 0) last_ = coordinator_->read_opened(name, opened(read.key, name));
    }
  }
  // The slave has said these tokens after what it read.
  void draft(const std::string& name, const Ids& said, bool mapped = false) {
    const ReadRequest& request = drafts_.at(name);
    ReadDone done = read_done(request.key, name);
    const int64_t begin = mapped ? 0 : std::ssize(request.token_ids);
    if (!said.empty())
      done.draft = {{name, 9, 99, {'x'}}, begin, begin + std::ssize(said), said, 0.25};
    last_ = coordinator_->read_done(name, done);
  }
  std::optional<GenerateRequest> started() const {
    const auto out = of_type<GenerateRequest>(last_);
    return out.empty() ? std::nullopt : std::optional(out[0].second);
  }
  AnswerReport finish() {
    GenerateDone done;
    done.request = 1;
    done.token_ids = kept_;
    last_ = coordinator_->generate_done(done);
    for (const auto& [name, read] : reads_)
      last_ = coordinator_->read_done(name, read_done(read.key, name));
    return coordinator_->take_report().value_or(AnswerReport());
  }

  std::optional<Coordinator> coordinator_;
  std::map<std::string, uint64_t> context_keys_;
  std::map<std::string, ReadRequest> reads_, drafts_;
  std::vector<Outgoing> last_;
  Ids kept_;
};

TEST_F(DraftsTest, TheMasterBeginsWhenAllHaveSaidWhatTheyWant) {
  begin();
  ask();
  ASSERT_EQ(drafts_.size(), 2u);
  // The reader goes on from its documents and the question, the twin from the master's prompt.
  EXPECT_EQ(drafts_["doc"].token_ids, (Ids{1, 2, 30, 31, 32, 7, 8, 9}));
  EXPECT_EQ(drafts_["doc"].head_key, context_keys_["doc"]);
  EXPECT_EQ(drafts_["doc"].draft.tokens, 4);
  EXPECT_EQ(drafts_["doc"].draft.end_ids, Ids{50});
  EXPECT_EQ(drafts_["twin"].token_ids, (Ids{1, 2, 7, 8, 9}));
  EXPECT_EQ(drafts_["twin"].head_key, reads_["twin"].key);
  EXPECT_EQ(drafts_["twin"].draft.tokens, 6);
  EXPECT_EQ(reads_["twin"].follow_ring, "answer/1");
  EXPECT_FALSE(started().has_value());
  draft("twin", {60, 61});
  EXPECT_FALSE(started().has_value());
  draft("doc", {70, 71, 72});
  const auto request = started();
  ASSERT_TRUE(request.has_value());
  // Head 0..1, document 2..4, tail 5..6, drafts 7..9 and 10..11, opening 12.
  EXPECT_EQ(request->first_new_position, 13);
  EXPECT_EQ(request->own.back().begin, 4);
  EXPECT_EQ(request->own.back().position_offset, 8);
  ASSERT_EQ(request->sources.size(), 4u);
  const SourceLink& doc = request->sources[1];
  EXPECT_EQ(doc.name, "doc");
  EXPECT_TRUE(doc.draft);
  EXPECT_FALSE(request->sources[0].draft);
  EXPECT_EQ(doc.stream.generation, 99u);
  ASSERT_EQ(doc.segments.size(), 1u);
  EXPECT_EQ(doc.segments[0].begin, 8);
  EXPECT_EQ(doc.segments[0].end, 11);
  EXPECT_EQ(doc.segments[0].begin + doc.segments[0].position_offset, 7);
  const SourceLink& twin = request->sources[3];
  EXPECT_TRUE(twin.draft);
  EXPECT_EQ(twin.segments[0].begin + twin.segments[0].position_offset, 10);
  const AnswerReport report = finish();
  ASSERT_EQ(report.drafts.size(), 2u);
  EXPECT_EQ(report.drafts[0].slave, "doc");
  EXPECT_EQ(report.drafts[0].token_ids, (Ids{70, 71, 72}));
  EXPECT_EQ(report.drafts[0].seconds, 0.25);
  std::set<uint64_t> dropped;
  for (const auto& [name, drop] : of_type<DropStream>(last_)) dropped.insert(drop.key);
  EXPECT_TRUE(dropped.contains(drafts_["doc"].key));
  EXPECT_TRUE(dropped.contains(drafts_["twin"].key));
}

TEST_F(DraftsTest, ASlaveWithNothingToSayTakesNoPlace) {
  begin();
  ask();
  draft("twin", {});
  draft("doc", {});
  const auto request = started();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->sources.size(), 2u);
  EXPECT_EQ(request->first_new_position, 8);
  EXPECT_EQ(finish().drafts.size(), 2u) << "it is told that they said nothing";
}

TEST_F(DraftsTest, ASlaveLostWhileItDraftsIsLeftOut) {
  begin();
  ask();
  draft("doc", {70});
  last_ = coordinator_->peer_ended({"twin", "killed", false, {}});
  const auto request = started();
  ASSERT_TRUE(request.has_value());
  ASSERT_EQ(request->sources.size(), 2u);
  EXPECT_EQ(request->sources[0].name, "doc");
  EXPECT_EQ(request->sources[1].name, "doc");
  const AnswerReport report = finish();
  ASSERT_EQ(report.degraded.size(), 1u);
  EXPECT_EQ(report.degraded[0].slave, "twin");
  EXPECT_EQ(report.degraded[0].why, "killed");
  EXPECT_EQ(report.drafts.size(), 1u);
}

TEST_F(DraftsTest, ADraftThatFailsCountsAsALostSlave) {
  CoordinatorSetup must = draft_setup();
  for (const OnFailure policy : {OnFailure::kDegrade, OnFailure::kFail}) {
    must.spec.models[1].on_failure = policy;
    begin(must);
    ask();
    draft("twin", {60});
    ReadDone failed = read_done(drafts_["doc"].key, "doc");
    failed.outcome = Outcome::of(fail(ErrorCode::kOutOfMemory, "no room", "doc"));
    last_ = coordinator_->read_done("doc", failed);
    EXPECT_EQ(started().has_value(), policy == OnFailure::kDegrade);
    const AnswerReport report = finish();
    EXPECT_EQ(report.outcome.failed, policy == OnFailure::kFail);
    if (policy == OnFailure::kFail) continue;
    ASSERT_EQ(report.degraded.size(), 1u);
    EXPECT_EQ(report.degraded[0].why, "no room");
  }
}

TEST_F(DraftsTest, CancellingReachesThoseThatDraft) {
  begin();
  ask();
  std::set<uint64_t> told;
  for (const auto& [name, cancel] : of_type<CancelRequest>(coordinator_->cancel(1)))
    told.insert(cancel.request);
  EXPECT_TRUE(told.contains(drafts_["doc"].key));
  EXPECT_TRUE(told.contains(drafts_["twin"].key));
  EXPECT_FALSE(coordinator_->take_report().has_value()) << "they have not ended yet";
}

// What the master computed from the opening on saw the draft, and is no history.
TEST_F(DraftsTest, TheNextTurnGoesOnFromWhatDidNotSeeTheDraft) {
  begin();
  Question first = question();
  first.conversation = 3;
  ask(first);
  draft("twin", {60});
  draft("doc", {70});
  kept_ = {1, 2, 7, 8, 9, 40, 41};
  const uint64_t kept = started()->keep_key;
  finish();
  Question second = question_of(5, {7, 8, 9, 40, 41, 11, 12});
  second.conversation = 3;
  second.ring = "answer/1";
  reads_.clear();
  ask(second);
  draft("twin", {60});
  draft("doc", {70});
  const auto request = started();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->head_key, kept);
  EXPECT_EQ(request->head_entries, 4);
}

TEST_F(DraftsTest, ScoredTokensAreNotDraftedFrom) {
  begin();
  Question scoring{.request = 1,
                   .tail_ids = {7, 8, 9, 20, 21},
                   .sampling = {},
                   .ring = {},
                   .scored_tokens = 2,
                   .opening_tokens = 2};
  ask(scoring);
  EXPECT_EQ(drafts_["doc"].token_ids, (Ids{1, 2, 30, 31, 32, 7, 8, 9}));
  EXPECT_EQ(drafts_["twin"].token_ids, (Ids{1, 2, 7, 8, 9}));
  draft("twin", {60});
  draft("doc", {});
  EXPECT_EQ(started()->own.back().begin, 3) << "opening and scored tokens come after the draft";
}

TEST_F(DraftsTest, AStrangerIsAskedInItsOwnTokens) {
  begin();
  Question asked = question();
  asked.draft_questions = {{"doc", {80, 81}}};
  ask(asked);
  EXPECT_EQ(drafts_["doc"].token_ids, (Ids{1, 2, 30, 31, 32, 80, 81}));
}

TEST_F(DraftsTest, WhoIsNotListenedToDoesNotDraft) {
  CoordinatorSetup silent = draft_setup();
  for (const size_t slave : {1, 2})
    silent.spec.models[slave].fusion.gain = -std::numeric_limits<double>::infinity();
  begin(silent);
  ask();
  EXPECT_TRUE(drafts_.empty());
}

}  // namespace
}  // namespace suture::coordinator_test
