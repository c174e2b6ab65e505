// The coordinator with continuations that are scored, and with texts that slaves read for one
// request.
#include <gtest/gtest.h>

#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

class TextsTest : public CoordinatorTest {
 protected:
  // Contexts are read, and nothing is reported of them later.
  void begin() {
    join_all();
    coordinator_.read_opened("m", opened(master_key_, "m"));
    coordinator_.read_opened("doc", opened(doc_key_, "doc"));
    coordinator_.read_done("m", read_done(master_key_, "m"));
    coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  }
  // {7, 8, 9} and a continuation.
  static Question scoring(uint64_t request, std::vector<int32_t> continuation) {
    Question question{.request = request,
                      .tail_ids = {7, 8, 9},
                      .sampling = {},
                      .conversation = 4,
                      .scored_tokens = std::ssize(continuation)};
    question.tail_ids.insert(question.tail_ids.end(), continuation.begin(), continuation.end());
    return question;
  }
  // Opens the readings; gives what the master is asked for.
  GenerateRequest open(const std::vector<std::pair<std::string, ReadRequest>>& reads) {
    std::vector<Outgoing> out;
    for (const auto& [name, read] : reads)
      out = coordinator_.read_opened(name, opened(read.key, name));
    const auto starts = of_type<GenerateRequest>(out);
    EXPECT_EQ(starts.size(), 1u);
    return starts.empty() ? GenerateRequest{} : starts[0].second;
  }
  // All have read and scored everything.
  AnswerReport finish(const std::vector<std::pair<std::string, ReadRequest>>& reads,
                      const GenerateRequest& request) {
    for (const auto& [name, read] : reads) {
      ReadDone done = read_done(read.key, name);
      done.token_ids = read.token_ids;
      coordinator_.read_done(name, done);
    }
    GenerateDone done;
    done.request = request.request;
    done.token_ids = request.token_ids;
    done.scores.resize(static_cast<size_t>(request.scored_tokens));
    last_ = coordinator_.generate_done(done);
    return coordinator_.take_report().value_or(AnswerReport());
  }

  std::vector<Outgoing> last_;
};

TEST_F(TextsTest, AScoredContinuationIsReadByAllAndGeneratesNothing) {
  begin();
  const auto reads = of_type<ReadRequest>(coordinator_.ask(scoring(1, {50, 51})));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9, 50, 51}));
  EXPECT_EQ(reads[0].second.capacity, 7);
  EXPECT_EQ(reads[0].second.follow_ring, "");
  const GenerateRequest request = open(reads);
  EXPECT_EQ(request.scored_tokens, 2);
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_EQ(request.token_ids, reads[0].second.token_ids);
  EXPECT_EQ(finish(reads, request).scores.size(), 2u);
}

// The row before the first scored token is needed again, and what is scored.
TEST_F(TextsTest, TheNextContinuationGoesOnFromTheQuestion) {
  begin();
  const auto first = of_type<ReadRequest>(coordinator_.ask(scoring(1, {50, 51})));
  const GenerateRequest one = open(first);
  finish(first, one);
  const auto second = of_type<ReadRequest>(coordinator_.ask(scoring(3, {50, 52, 53})));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].second.head_key, first[0].second.key);
  EXPECT_EQ(second[0].second.head_entries, 6);
  const GenerateRequest two = open(second);
  EXPECT_EQ(two.head_key, one.keep_key);
  EXPECT_EQ(two.head_entries, 4);
  finish(second, two);
  EXPECT_EQ(of_type<DropStream>(last_).size(), 2u);  // what the first one left
  EXPECT_EQ(of_type<DropStream>(coordinator_.release(4)).size(), 2u);
}

// A ring that was closed in time tells that an answer is complete. There is none here.
TEST_F(TextsTest, ScoringThatLosesItsMasterBeginsAgain) {
  begin();
  const auto reads = of_type<ReadRequest>(coordinator_.ask(scoring(1, {50})));
  open(reads);
  PeerLoss loss{.name = "m", .why = "process exited", .restarts = true, .delivered = {}};
  coordinator_.peer_ended(loss);
  const auto head = of_type<ReadRequest>(coordinator_.joined("m"));
  ASSERT_EQ(head.size(), 1u);
  const auto again =
      of_type<GenerateRequest>(coordinator_.read_opened("m", opened(head[0].second.key, "m")));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].second.scored_tokens, 1);
  EXPECT_EQ(again[0].second.attempt, 1u);
}

TEST_F(TextsTest, MoreThanThereIsCannotBeScored) {
  begin();
  Question question = scoring(1, {50});
  question.scored_tokens = 6;
  coordinator_.ask(question);
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->outcome.code, ErrorCode::kInvalidArgument);
}

TEST_F(TextsTest, ADocumentOfOneRequestTakesThePlaceOfTheContext) {
  begin();
  Question with_document = question();
  with_document.texts = {{.slave = "doc", .token_ids = {1, 2, 30, 40}, .shared_tokens = 2}};
  const auto reads = of_type<ReadRequest>(coordinator_.ask(with_document));
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].first, "doc");
  EXPECT_EQ(reads[0].second.token_ids, (std::vector<int32_t>{1, 2, 30, 40}));
  EXPECT_EQ(reads[0].second.capacity, 4);
  EXPECT_EQ(reads[0].second.request, 1u);
  EXPECT_EQ(reads[0].second.follow_ring, "");
  EXPECT_EQ(reads[0].second.head_key, doc_key_);  // as far as the context begins like it
  EXPECT_EQ(reads[0].second.head_entries, 3);
  const GenerateRequest request = open(reads);
  ASSERT_EQ(request.sources.size(), 2u);
  EXPECT_EQ(request.sources[0].segments.at(0).begin, 2);
  EXPECT_EQ(request.sources[0].segments.at(0).end, 4);
  EXPECT_EQ(request.first_new_position, 7);  // 2 + 2 of the document + 3
  finish(reads, request);
  const auto drops = of_type<DropStream>(last_);
  ASSERT_EQ(drops.size(), 2u);
  EXPECT_EQ(drops[0].second.key, reads[0].second.key);
  // The next request sees the context again.
  const auto next = of_type<ReadRequest>(coordinator_.ask(question_of(3)));
  EXPECT_EQ(open(next).sources.at(0).segments.at(0).end, 5);
}

TEST_F(TextsTest, ASlaveThatWasGoneWhenItsDocumentCameIsReportedEvenIfItIsBack) {
  begin();
  coordinator_.peer_ended({"doc", "process exited", true, {}});
  Question with_document = question();
  with_document.texts = {{.slave = "doc", .token_ids = {1, 2, 40}, .shared_tokens = 2}};
  const auto reads = of_type<ReadRequest>(coordinator_.ask(with_document));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].first, "twin");
  const auto context = of_type<ReadRequest>(coordinator_.joined("doc"));
  coordinator_.read_opened("doc", opened(context.at(0).second.key, "doc"));
  const GenerateRequest request = open(reads);
  ASSERT_EQ(request.sources.size(), 1u);
  EXPECT_EQ(request.sources[0].name, "twin");
  coordinator_.read_done("doc", read_done(context[0].second.key, "doc"));
  const AnswerReport report = finish(reads, request);
  ASSERT_EQ(report.degraded.size(), 1u);
  EXPECT_EQ(report.degraded[0].slave, "doc");
  EXPECT_EQ(report.degraded[0].why, "process exited");
}

// A slave whose documents come with requests has read nothing of its own before one brings some.
TEST(TextsPolicyTest, ASlaveThatHasReadNothingTakesNoPart) {
  CoordinatorSetup empty = setup();
  empty.contexts[1].head_ids = {1, 2};
  Coordinator coordinator(empty);
  coordinator.joined("m");
  coordinator.joined("doc");
  for (const auto& [name, read] : of_type<ReadRequest>(coordinator.joined("twin")))
    coordinator.read_opened(name, opened(read.key, name));
  const auto reads = of_type<ReadRequest>(coordinator.ask(question()));
  ASSERT_EQ(reads.size(), 1u);
  const auto starts = of_type<GenerateRequest>(
      coordinator.read_opened("twin", opened(reads[0].second.key, "twin")));
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(starts[0].second.sources.size(), 1u);
  EXPECT_EQ(starts[0].second.sources[0].name, "twin");
}

TEST_F(TextsTest, AnAlignedSlaveCanReadAnotherTextOfTheSameLength) {
  begin();
  Question other = question();
  other.texts = {{.slave = "twin", .token_ids = {1, 2, 60, 61, 62}}};
  const auto reads = of_type<ReadRequest>(coordinator_.ask(other));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.token_ids, (std::vector<int32_t>{1, 2, 60, 61, 62}));
  EXPECT_EQ(reads[0].second.capacity, 10);
  EXPECT_EQ(reads[0].second.follow_ring, "answer/1");
  EXPECT_EQ(open(reads).token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
}

TEST_F(TextsTest, TextsThatNobodyCanReadAreRefused) {
  begin();
  const std::vector<RequestText> wrong = {
      {.slave = "twin", .token_ids = {1, 2, 60}},
      {.slave = "m", .token_ids = {1, 2, 60}},
      {.slave = "nobody", .token_ids = {1, 2, 60}},
      {.slave = "doc", .token_ids = {}},
      {.slave = "doc", .token_ids = std::vector<int32_t>(9000, 5)}};
  for (uint64_t i = 0; i < wrong.size(); ++i) {
    Question asked = question_of(1 + 2 * i);
    asked.texts = {wrong[i]};
    coordinator_.ask(asked);
    const auto report = coordinator_.take_report();
    ASSERT_TRUE(report.has_value()) << i;
    EXPECT_EQ(report->outcome.code, ErrorCode::kInvalidArgument) << i;
    EXPECT_EQ(report->outcome.where, wrong[i].slave) << i;
  }
}

TEST_F(TextsTest, CancellingReachesSlavesThatFollowNobody) {
  begin();
  Question with_document = question();
  with_document.texts = {{.slave = "doc", .token_ids = {1, 2, 40}, .shared_tokens = 2}};
  const auto reads = of_type<ReadRequest>(coordinator_.ask(with_document));
  open(reads);
  const auto cancels = of_type<CancelRequest>(coordinator_.cancel(1));
  ASSERT_EQ(cancels.size(), 2u);
  EXPECT_EQ(cancels[0].first, "m");
  EXPECT_EQ(cancels[1].first, "doc");
  EXPECT_EQ(cancels[1].second.request, reads[0].second.key);
}

}  // namespace
}  // namespace suture::coordinator_test
