#include "actors/coordinator.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "actors/test_coordinator.h"

namespace suture::coordinator_test {
namespace {

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

TEST_F(CoordinatorTest, EndTokensEndNoAnswerWhoseQuestionIgnoresThem) {
  join_all();
  Question asked = question();
  asked.ignore_eos = true;
  ask(asked);
  EXPECT_TRUE(start().end_ids.empty());
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

// Nothing of an aligned slave would reach the answer, not even its end.
TEST(CoordinatorPolicyTest, AnAlignedSlaveThatNoLayerListensToIsLeftAlone) {
  CoordinatorSetup with_silent = setup();
  with_silent.spec.models[2].fusion.gain = -std::numeric_limits<double>::infinity();
  with_silent.spec.models[2].on_failure = OnFailure::kFail;
  Coordinator coordinator(with_silent);
  coordinator.joined("m");
  coordinator.joined("doc");
  const auto contexts = of_type<ReadRequest>(coordinator.joined("twin"));
  ASSERT_EQ(contexts.size(), 2u);
  coordinator.read_opened("m", opened(contexts[0].second.key, "m"));
  coordinator.peer_ended({"twin", "process exited"});
  EXPECT_TRUE(of_type<ReadRequest>(coordinator.ask(question())).empty());
  const auto requests = of_type<GenerateRequest>(
      coordinator.read_opened("doc", opened(contexts[1].second.key, "doc")));
  ASSERT_EQ(requests.size(), 1u);
  ASSERT_EQ(requests[0].second.sources.size(), 1u);
  EXPECT_EQ(requests[0].second.sources[0].name, "doc");
}

TEST_F(CoordinatorTest, CancellingReachesWhoeverWorks) {
  join_all();
  ask();
  EXPECT_TRUE(coordinator_.cancel(99).empty());
  const auto before = of_type<CancelRequest>(coordinator_.cancel(1));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].first, "twin");
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
}  // namespace suture::coordinator_test
