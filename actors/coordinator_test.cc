#include "actors/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace suture {
namespace {

ModelSpec model(const std::string& name, Role role, SlavePosition position) {
  ModelSpec spec;
  spec.name = name;
  spec.role = role;
  spec.fusion.position = position;
  return spec;
}

// A master with head {1, 2}, a document reader and an aligned slave.
CoordinatorSetup setup() {
  CoordinatorSetup setup;
  setup.spec.models = {model("m", Role::kMaster, SlavePosition::kAligned),
                       model("doc", Role::kSlave, SlavePosition::kPrefix),
                       model("twin", Role::kSlave, SlavePosition::kAligned)};
  setup.contexts = {{"m", {1, 2}}, {"doc", {1, 2, 30, 31, 32}, 2, {0}}, {"twin", {}, 0, {0}}};
  setup.master_layers = 1;
  setup.master_positions = 1000;
  setup.end_ids = {0};
  return setup;
}

Question question() {
  return {.request = 1, .tail_ids = {7, 8, 9}, .max_tokens = 5, .sampling = {}, .ring = "answer/1"};
}

template <typename T>
std::vector<std::pair<std::string, T>> of_type(const std::vector<Outgoing>& messages) {
  std::vector<std::pair<std::string, T>> found;
  for (const auto& [name, message] : messages)
    if (const T* payload = std::get_if<T>(&message)) found.push_back({name, *payload});
  return found;
}

ReadOpened opened(uint64_t key, const std::string& owner) {
  return {.key = key, .outcome = {}, .stream = {owner, 3, 77, {'x'}}};
}

ReadDone read_done(uint64_t key, const std::string& name) {
  ReadDone done;
  done.key = key;
  done.figures.name = name;
  done.figures.prompt_tokens = 5;
  return done;
}

class CoordinatorTest : public testing::Test {
 protected:
  // Joins everybody; remembers the keys of the contexts.
  void join_all() {
    EXPECT_TRUE(coordinator_.joined("m").empty());
    EXPECT_TRUE(coordinator_.joined("twin").empty());
    const auto reads = of_type<ReadRequest>(coordinator_.joined("doc"));
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_EQ(reads[0].first, "m");
    EXPECT_EQ(reads[1].first, "doc");
    EXPECT_EQ(reads[1].second.token_ids.size(), 5u);
    master_key_ = reads[0].second.key;
    doc_key_ = reads[1].second.key;
  }

  // Asks; remembers the aligned slave's key.
  void ask() {
    const auto reads = of_type<ReadRequest>(coordinator_.ask(question()));
    ASSERT_EQ(reads.size(), 1u);
    EXPECT_EQ(reads[0].first, "twin");
    EXPECT_EQ(reads[0].second.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
    EXPECT_EQ(reads[0].second.capacity, 10);
    EXPECT_EQ(reads[0].second.follow_ring, "answer/1");
    twin_key_ = reads[0].second.key;
  }

  GenerateRequest start() {
    EXPECT_TRUE(coordinator_.read_opened("m", opened(master_key_, "m")).empty());
    EXPECT_TRUE(coordinator_.read_opened("doc", opened(doc_key_, "doc")).empty());
    const auto out =
        of_type<GenerateRequest>(coordinator_.read_opened("twin", opened(twin_key_, "twin")));
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? GenerateRequest{} : out[0].second;
  }

  Coordinator coordinator_{setup()};
  uint64_t master_key_ = 0;
  uint64_t doc_key_ = 0;
  uint64_t twin_key_ = 0;
};

TEST_F(CoordinatorTest, ReadsContextsOnceAndStartsTheMasterWhenAllStreamsAreOpen) {
  join_all();
  ask();
  const GenerateRequest request = start();
  EXPECT_EQ(request.head_key, master_key_);
  EXPECT_EQ(request.head_entries, 2);
  EXPECT_EQ(request.token_ids, (std::vector<int32_t>{1, 2, 7, 8, 9}));
  ASSERT_EQ(request.sources.size(), 2u);
  ASSERT_EQ(request.sources[0].segments.size(), 1u);
  EXPECT_EQ(request.sources[0].segments[0].begin, 2);
  EXPECT_EQ(request.sources[0].segments[0].end, 5);
  EXPECT_EQ(request.sources[0].stream.generation, 77u);
  EXPECT_EQ(request.sources[1].segments.size(), 2u);  // one a run of the master
  EXPECT_EQ(request.first_new_position, 8);           // 2 + 3 of the document + 3
}

TEST_F(CoordinatorTest, ReportsWhenTheAnswerAndAllReadingsHaveEnded) {
  join_all();
  ask();
  start();
  GenerateDone done;
  done.request = 1;
  done.figures.name = "m";
  EXPECT_TRUE(coordinator_.generate_done(done).empty());
  EXPECT_FALSE(coordinator_.take_report().has_value());
  coordinator_.read_done("m", read_done(master_key_, "m"));
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  EXPECT_FALSE(coordinator_.take_report().has_value());
  const auto drops =
      of_type<DropStream>(coordinator_.read_done("twin", read_done(twin_key_, "twin")));
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].second.key, twin_key_);
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->figures.size(), 3u);
  EXPECT_EQ(report->figures[0].prompt_tokens, 5);
  EXPECT_TRUE(report->degraded.empty());
  EXPECT_FALSE(coordinator_.take_report().has_value());
}

TEST_F(CoordinatorTest, ASlaveThatIsGoneIsReportedAndLeftOut) {
  join_all();
  coordinator_.peer_ended({"doc", "process exited"});
  ask();
  coordinator_.read_opened("m", opened(master_key_, "m"));
  const auto out =
      of_type<GenerateRequest>(coordinator_.read_opened("twin", opened(twin_key_, "twin")));
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(out[0].second.sources.size(), 1u);
  EXPECT_EQ(out[0].second.sources[0].name, "twin");
  EXPECT_EQ(out[0].second.first_new_position, 5);
}

TEST(CoordinatorPolicyTest, OnFailureFailEndsTheRequestAndStopsTheFollower) {
  CoordinatorSetup strict = setup();
  strict.spec.models[1].on_failure = OnFailure::kFail;
  Coordinator coordinator(strict);
  coordinator.joined("m");
  coordinator.joined("doc");
  const uint64_t master_key = of_type<ReadRequest>(coordinator.joined("twin"))[0].second.key;
  coordinator.read_opened("m", opened(master_key, "m"));
  coordinator.read_done("m", read_done(master_key, "m"));
  coordinator.peer_ended({"doc", "process exited"});
  const uint64_t twin_key = of_type<ReadRequest>(coordinator.ask(question()))[0].second.key;
  const auto cancels =
      of_type<CancelRequest>(coordinator.read_opened("twin", opened(twin_key, "twin")));
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].second.request, twin_key);
  coordinator.read_done("twin", read_done(twin_key, "twin"));
  const auto report = coordinator.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->outcome.failed);
  EXPECT_EQ(report->outcome.where, "doc");
}

// It is told whose tokens it gets; the master, that the slave's are others. A prefix slave reads
// tokens of its own whatever its vocabulary.
TEST(CoordinatorPolicyTest, AnAlignedSlaveOfAnotherVocabularyReadsTheMastersText) {
  CoordinatorSetup setup_with_others = setup();
  setup_with_others.contexts[1].other_vocabulary = true;
  setup_with_others.contexts[2].other_vocabulary = true;
  setup_with_others.spec.stitch_until = 10;
  Coordinator coordinator(setup_with_others);
  coordinator.joined("m");
  coordinator.joined("doc");
  const auto contexts = of_type<ReadRequest>(coordinator.joined("twin"));
  ASSERT_EQ(contexts.size(), 2u);
  for (const auto& [name, read] : contexts) EXPECT_EQ(read.text_of, "");
  const auto reads = of_type<ReadRequest>(coordinator.ask(question()));
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].second.text_of, "m");
  coordinator.read_opened("m", opened(contexts[0].second.key, "m"));
  coordinator.read_opened("doc", opened(contexts[1].second.key, "doc"));
  const auto requests = of_type<GenerateRequest>(
      coordinator.read_opened("twin", opened(reads[0].second.key, "twin")));
  ASSERT_EQ(requests.size(), 1u);
  const GenerateRequest& request = requests[0].second;
  ASSERT_EQ(request.sources.size(), 2u);
  EXPECT_FALSE(request.sources[0].other_vocabulary);
  EXPECT_TRUE(request.sources[1].other_vocabulary);
  EXPECT_EQ(request.sources[1].layer_map, (std::vector<int32_t>{0}));
  // Head 2, document 3: the first row of the question, at position 5, sees 3 own tokens, 3 of the
  // document and 2 of the twin; each row after it 2 more.
  EXPECT_EQ(request.stitch_end, 7);
}

TEST_F(CoordinatorTest, WhenTheMasterIsGivenUpTheRequestEndsWithAnError) {
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
          .delivered = {.request = 1, .token_ids = std::move(tokens)}};
}

// The answer goes on where it was, on the master that comes next, which reads its head anew.
TEST_F(CoordinatorTest, TheNextMasterGoesOnWithTheAnswer) {
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
TEST_F(CoordinatorTest, ASlaveThatWasLostBeforeTheMasterStaysOutOfTheAnswer) {
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

TEST_F(CoordinatorTest, AnAnswerThatWasCompleteNeedsNoOtherMaster) {
  join_all();
  ask();
  start();
  PeerLoss after = loss("m", {40, 41});
  after.delivered.finished = true;
  after.delivered.reason = FinishReason::kLength;
  coordinator_.peer_ended(after);
  coordinator_.read_done("doc", read_done(doc_key_, "doc"));
  coordinator_.read_done("twin", read_done(twin_key_, "twin"));
  const auto report = coordinator_.take_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->outcome.failed);
  EXPECT_EQ(report->reason, FinishReason::kLength);
}

TEST_F(CoordinatorTest, AQuestionThatNoMasterSurvivesIsGivenUpBeforeTheLaunchIs) {
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

TEST_F(CoordinatorTest, WhileTheMasterIsAwayRequestsWaitAndCanBeCancelled) {
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

TEST_F(CoordinatorTest, ASlaveThatIsBackTakesPartInTheNextRequest) {
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

TEST_F(CoordinatorTest, CancellingReachesWhoeverWorks) {
  join_all();
  ask();
  EXPECT_TRUE(coordinator_.cancel(99).empty());
  const auto before = of_type<CancelRequest>(coordinator_.cancel(1));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].first, "twin");
}

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

TEST_F(CoordinatorTest, MessagesThatBelongToNobodyAreIgnored) {
  join_all();
  EXPECT_TRUE(coordinator_.read_opened("doc", opened(master_key_, "doc")).empty());
  EXPECT_TRUE(coordinator_.read_done("nobody", read_done(4711, "nobody")).empty());
  EXPECT_TRUE(coordinator_.peer_ended({"nobody", "x"}).empty());
  EXPECT_TRUE(coordinator_.joined("nobody").empty());
  GenerateDone stray;
  stray.request = 5;
  EXPECT_TRUE(coordinator_.generate_done(stray).empty());
}

TEST(CoordinatorWarmUpTest, TheMasterMapsTheSlavesSlabsBeforeAnyRequest) {
  for (const bool warm_up : {true, false}) {
    CoordinatorSetup cold = setup();
    cold.spec.warm_up = warm_up;
    Coordinator coordinator(std::move(cold));
    EXPECT_TRUE(coordinator.joined("m").empty());
    EXPECT_TRUE(coordinator.joined("twin").empty());
    const auto imports = of_type<ImportSlabs>(coordinator.joined("doc"));
    ASSERT_EQ(imports.size(), warm_up ? 1u : 0u);
    if (!warm_up) continue;
    EXPECT_EQ(imports[0].first, "m");
    EXPECT_EQ(imports[0].second.owners, (std::vector<std::string>{"doc", "twin"}));
  }
}

TEST_F(CoordinatorTest, ReadingsSayWhichRequestTheyBelongTo) {
  const auto contexts = [this] {
    coordinator_.joined("m");
    coordinator_.joined("twin");
    return of_type<ReadRequest>(coordinator_.joined("doc"));
  }();
  ASSERT_EQ(contexts.size(), 2u);
  EXPECT_EQ(contexts[0].second.request, 0u);
  const auto aligned = of_type<ReadRequest>(coordinator_.ask(question()));
  ASSERT_EQ(aligned.size(), 1u);
  EXPECT_EQ(aligned[0].second.request, 1u);
}

}  // namespace
}  // namespace suture
