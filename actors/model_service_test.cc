#include "actors/model_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <span>

#include "actors/test_model_service.h"
#include "bus/slab_figures.h"
#include "bus/stream_reader.h"
#include "bus/token_ring.h"

namespace suture::model_service_test {
namespace {

TEST_F(ModelServiceTest, AloneItGivesTheReferenceTokens) {
  GenerateDone done;
  EXPECT_EQ(answer(request(prompt_, 16), &done), greedy_);
  EXPECT_EQ(done.reason, FinishReason::kLength);
  EXPECT_EQ(done.figures.prompt_tokens, std::ssize(prompt_));
  EXPECT_EQ(done.figures.decoded_tokens, 16);
}

TEST_F(ModelServiceTest, ASlaveThatReadAllButTheLastTokenGivesTheReferenceTokens) {
  const int64_t n = std::ssize(prompt_);
  const StreamRef stream = read_on_slave({prompt_.begin(), prompt_.end() - 1}, 10);
  GenerateRequest stitched = request({prompt_.front(), prompt_.back()}, 16);
  stitched.own = {{0, 0}, {1, n - 2}};
  stitched.first_new_position = n;
  stitched.sources = {prefix(stream, 1, n - 1)};
  GenerateDone done;
  EXPECT_EQ(answer(stitched, &done), greedy_);
  EXPECT_TRUE(done.degraded.empty());
  EXPECT_GT(done.figures.kv_bytes_read, 0);
  EXPECT_FALSE(slave_read_.get().outcome.failed);
}

TEST_F(ModelServiceTest, AHeadThatWasReadBeforeIsForked) {
  ModelService& service = *master_.service;
  const std::vector<int32_t> head(prompt_.begin(), prompt_.begin() + 20);
  master_.run([&] { return service.open({50, head, 20, ""}); }).get();
  master_.read(50).get();
  GenerateRequest forked = request(prompt_, 16);
  forked.head_key = 50;
  forked.head_entries = 20;
  GenerateDone done;
  EXPECT_EQ(answer(forked, &done), greedy_);
  EXPECT_EQ(done.figures.prompt_tokens, std::ssize(prompt_) - 20);
}

TEST_F(ModelServiceTest, AnAnswerThatIsKeptIsGoneOnFromWithoutReadingItAgain) {
  GenerateRequest first = request({prompt_.begin(), prompt_.begin() + 12}, 6);
  first.keep_key = 60;
  GenerateDone done;
  std::vector<int32_t> text = first.token_ids;
  for (const int32_t id : answer(first, &done)) text.push_back(id);
  EXPECT_EQ(done.token_ids, text);  // the last one too

  std::vector<int32_t> longer = text;
  longer.insert(longer.end(), prompt_.begin(), prompt_.begin() + 9);
  GenerateRequest next = request(longer, 10);
  next.head_key = 60;
  next.head_entries = 18;
  next.keep_key = 62;
  const auto continued = answer(next, &done);
  EXPECT_EQ(done.figures.prompt_tokens, 9);
  EXPECT_EQ(done.figures.reused_tokens, 18);
  EXPECT_EQ(done.token_ids.size(), 37u);
  EXPECT_EQ(answer(request(longer, 10), &done), continued);  // read in one piece
  EXPECT_EQ(done.figures.prompt_tokens, 27);
  EXPECT_TRUE(done.token_ids.empty());
}

TEST_F(ModelServiceTest, KeptAnswersReserveNoMoreThanTheyHold) {
  // 128 x 2 tokens in all: four conversations of 18 tokens, each asked with room for 100.
  for (uint64_t conversation = 0; conversation < 4; ++conversation) {
    GenerateRequest first = request({prompt_.begin(), prompt_.begin() + 12}, 88);
    first.end_ids = {greedy_of_twelve().back()};
    first.keep_key = 60 + conversation;
    GenerateDone done;
    answer(first, &done);
    EXPECT_EQ(done.reason, FinishReason::kStop);
  }
}

TEST_F(ModelServiceTest, AFollowerGoesOnFromItsOwnStream) {
  const auto ring = open_ring("ring");
  const StreamRef stream = read_on_slave(prompt_, 10, "ring");
  GenerateRequest first = request(prompt_, 4);
  first.sources = {aligned(stream, 1, 0)};
  answer_into(ring, first);
  const ReadDone read = slave_read_.get();
  const int64_t n = std::ssize(prompt_);
  ASSERT_EQ(std::ssize(read.token_ids), n + 4);
  ReadRequest next{12, read.token_ids, 100, ""};
  next.token_ids.push_back(prompt_[0]);
  next.head_key = 10;
  next.head_entries = n + 4;
  ModelService& service = *slave_.service;
  EXPECT_FALSE(slave_.run([&] { return service.open(next); }).get().outcome.failed);
  const ReadDone more = slave_.read(12).get();
  EXPECT_FALSE(more.outcome.failed) << more.outcome.what;
  EXPECT_EQ(more.figures.prompt_tokens, 1);
  EXPECT_EQ(more.figures.reused_tokens, n + 4);
}

TEST_F(ModelServiceTest, AConsumerThatWantsNoMoreEndsTheAnswer) {
  const auto ring = open_ring("ring");
  ring->grant(64);
  ring->cancel();
  const GenerateDone done = generate(request(prompt_, 16)).get();
  EXPECT_FALSE(done.outcome.failed) << done.outcome.what;
  EXPECT_EQ(done.reason, FinishReason::kCancelled);
}

TEST_F(ModelServiceTest, AnAlignedSlaveFollowsEveryTokenAndTheResultIsTheSameEachTime) {
  std::vector<int32_t> first;
  for (uint64_t round = 0; round < 5; ++round) {
    const uint64_t key = 10 + round;
    const auto ring = open_ring("ring");  // before anybody looks for it
    const StreamRef stream = read_on_slave(prompt_, key, "ring");
    GenerateRequest stitched = request(prompt_, 16);
    stitched.sources = {aligned(stream, 1, 0.5f)};
    const auto ids = answer_into(ring, stitched);
    if (round == 0) first = ids;
    EXPECT_EQ(ids, first);
    const ReadDone read = slave_read_.get();
    EXPECT_FALSE(read.outcome.failed) << read.outcome.what;
    EXPECT_GE(read.figures.decoded_tokens, 14);  // all that the master's rows could see
    slave_.run([&] { slave_.service->drop(key); }).get();
  }
  EXPECT_EQ(first.size(), 16u);
}

TEST_F(ModelServiceTest, ASlaveAtMinusInfinityChangesNothingAndIsNotWaitedFor) {
  // The slave never reads: a wait for its rows would not end.
  const StreamRef stream = slave_.run([&] {
                                   return slave_.service->open({10, prompt_, 100, ""});
                                 })
                               .get()
                               .stream;
  GenerateRequest stitched = request(prompt_, 16);
  stitched.sources = {aligned(stream, 1, kOff)};
  GenerateDone done;
  EXPECT_EQ(answer(stitched, &done), greedy_);
  EXPECT_EQ(done.figures.bus_waits, 0);
}

// Layers without a partner see nothing of the slave, so a map that leaves out layer 1 is a gain of
// -inf there.
TEST_F(ModelServiceTest, LayersWithoutAPartnerUseTheirOwnKv) {
  const StreamRef stream = read_on_slave(prompt_, 10);
  slave_read_.wait();
  GenerateRequest stitched = request(prompt_, 16);
  stitched.sources = {aligned(stream, 1, 0)};
  stitched.sources[0].segments[0].end = 10;  // the slave follows nobody
  const auto all = answer(stitched);
  stitched.sources[0].layer_gain_bits[1] = std::bit_cast<uint32_t>(kOff);
  const auto without_gain = answer(stitched);
  stitched.sources[0].layer_gain_bits[1] = std::bit_cast<uint32_t>(0.0f);
  stitched.sources[0].layer_map = {0, -1, 2};
  EXPECT_EQ(answer(stitched), without_gain);
  EXPECT_NE(all, without_gain);
  stitched.sources[0].layer_map = {0, 3, 2};
  GenerateDone done;
  EXPECT_EQ(answer(stitched, &done), greedy_) << "a slave without that layer is left out";
  ASSERT_EQ(done.degraded.size(), 1u);
  EXPECT_NE(done.degraded[0].why.find("layer 3"), std::string::npos) << done.degraded[0].why;
}

// The rows below the limit are those of the stitched answer, the others those of the master alone:
// a limit before the first row is the master alone.
TEST_F(ModelServiceTest, BeyondTheLimitTheAnswerGoesOnWithoutSlaves) {
  const StreamRef stream = read_on_slave(prompt_, 10);
  slave_read_.wait();
  GenerateRequest stitched = request(prompt_, 16);
  stitched.sources = {aligned(stream, 1, 0)};
  stitched.sources[0].segments[0].end = 10;
  const auto all = answer(stitched);
  GenerateDone done;
  stitched.stitch_end = 0;
  EXPECT_EQ(answer(stitched, &done), greedy_);
  ASSERT_EQ(done.degraded.size(), 1u);
  EXPECT_EQ(done.degraded[0].token, 0);
  EXPECT_NE(done.degraded[0].why.find("stitch_until"), std::string::npos);
  EXPECT_EQ(done.figures.bus_waits, 0);
  stitched.stitch_end = std::ssize(prompt_) + 5;  // the row of token 5, which gives token 6
  const auto limited = answer(stitched, &done);
  ASSERT_EQ(limited.size(), 16u);
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 6, limited.begin()));
  ASSERT_EQ(done.degraded.size(), 1u);
  EXPECT_EQ(done.degraded[0].token, 5);
  stitched.stitch_end = std::ssize(prompt_) + 16;
  EXPECT_EQ(answer(stitched, &done), all);
  EXPECT_TRUE(done.degraded.empty());
}

TEST_F(ModelServiceTest, ASlaveThatGoesAwayIsLeftBehindBetweenTwoTokens) {
  const StreamRef stream = read_on_slave({prompt_.begin(), prompt_.end() - 1}, 10);
  slave_read_.wait();
  const int64_t n = std::ssize(prompt_);
  GenerateRequest stitched = request({prompt_.front(), prompt_.back()}, 16);
  stitched.own = {{0, 0}, {1, n - 2}};
  stitched.first_new_position = n;
  stitched.sources = {prefix(stream, 1, n - 1)};
  const auto ring = open_ring("ring");
  ring->grant(4);
  auto running = generate(stitched);
  TokenRingReader reader(ring);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ((*reader.wait_next(deadline_in(std::chrono::minutes(1))))->id,
              greedy_[static_cast<size_t>(i)]);
  slave_.run([&] { slave_.service->drop(10); }).get();
  ring->grant(64);
  const GenerateDone done = running.get();
  EXPECT_FALSE(done.outcome.failed) << done.outcome.what;
  EXPECT_EQ(done.figures.decoded_tokens, 16);
  ASSERT_EQ(done.degraded.size(), 1u);
  EXPECT_EQ(done.degraded[0].slave, "slave");
  // Token 3 was out; the step after it may have begun before the stream was closed.
  EXPECT_GE(done.degraded[0].token, 4);
  EXPECT_LE(done.degraded[0].token, 5);
}

TEST_F(ModelServiceTest, OnFailureFailEndsTheAnswerWithTheReason) {
  const StreamRef stream = read_on_slave({prompt_.begin(), prompt_.end() - 1}, 10);
  slave_read_.wait();
  slave_.run([&] { slave_.service->drop(10); }).get();
  GenerateRequest stitched = request({prompt_.front(), prompt_.back()}, 4);
  stitched.sources = {prefix(stream, 1, 5)};
  stitched.sources[0].fail_when_lost = true;
  const auto ring = open_ring("ring");
  ring->grant(4);
  const GenerateDone done = generate(stitched).get();
  EXPECT_TRUE(done.outcome.failed);
  EXPECT_EQ(done.outcome.where, "slave");
  EXPECT_EQ(done.reason, FinishReason::kError);
}

TEST_F(ModelServiceTest, CancellingEndsAnAnswerThatWaitsForCredit) {
  const auto ring = open_ring("ring");
  ring->grant(2);
  auto running = generate(request(prompt_, 16));
  TokenRingReader reader(ring);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(reader.wait_next(deadline_in(std::chrono::minutes(1))).has_value());
  master_.service->cancel(1);
  const GenerateDone done = running.get();
  EXPECT_FALSE(done.outcome.failed);
  EXPECT_EQ(done.reason, FinishReason::kCancelled);
  EXPECT_EQ(tokens(ring).size(), 2u);
}

// The reference for reading everything again whenever the frequencies change, against that for rows
// that keep their rotation.
TEST_F(ModelServiceTest, TheLimitOfTheRopeIsCrossedAsAsked) {
  const std::filesystem::path path = kTiny.parent_path() / "phi3_longrope";
  const std::string golden = "golden_short";
  const auto prompt = golden_ids("input_ids", path, golden);  // 24 tokens, the limit is at 32
  const auto answer_with = [&](RopeCrossing crossing, bool fork) {
    Process process = start("rope", Role::kMaster, path, crossing);
    ModelService& service = *process.service;
    if (fork) {
      const ReadRequest head{50, {prompt.begin(), prompt.begin() + 20}, 20, ""};
      process.run([&] { return service.open(head); }).get();
      process.read(50).get();
    }
    GenerateRequest wanted = request(prompt, 16);
    wanted.head_key = fork ? 50 : 0;
    wanted.head_entries = fork ? 20 : 0;
    const auto ring = open_ring(wanted.ring);
    ring->grant(ring->capacity());
    const GenerateDone done = process.generate(wanted).get();
    EXPECT_FALSE(done.outcome.failed) << done.outcome.what;
    EXPECT_TRUE(client_->withdraw_ring(wanted.ring));
    service.stop();
    process.engine.reset();
    return tokens(ring);
  };
  EXPECT_EQ(answer_with(RopeCrossing::kKeep, false), golden_ids("greedy_ids", path, golden));
  for (const bool fork : {false, true})
    EXPECT_EQ(answer_with(RopeCrossing::kReread, fork),
              golden_ids("recompute_greedy_ids", path, golden));
}

TEST_F(ModelServiceTest, ARequestThatDoesNotFitIsRefusedWithNumbers) {
  const auto ring = open_ring("ring");
  const GenerateDone done = generate(request(prompt_, 1000)).get();
  EXPECT_TRUE(done.outcome.failed);
  EXPECT_NE(done.outcome.what.find("128"), std::string::npos) << done.outcome.what;
}

TEST_F(ModelServiceTest, AfterWarmUpNothingIsBuiltForARequest) {
  ASSERT_TRUE(master_.run([this] { return master_.service->warm_up(); }).get().has_value());
  const auto read = [](Process& process, uint64_t key) {
    const ReadRequest request{.key = key, .token_ids = {1, 2, 3}, .capacity = 8};
    EXPECT_FALSE(process.run([&] { return process.service->open(request); }).get().outcome.failed);
    return process.read(request.key).get();
  };
  const ReadDone warm = read(master_, 2);
  EXPECT_FALSE(warm.outcome.failed) << warm.outcome.what;
  EXPECT_EQ(warm.figures.lazily_built, 0);
  EXPECT_GT(read(slave_, 2).figures.lazily_built, 0);
  EXPECT_EQ(read(slave_, 4).figures.lazily_built, 0);
}

TEST_F(ModelServiceTest, WhoeverWatchesSeesTheWork) {
  const ReadRequest request{.key = 2, .token_ids = {1, 2, 3}, .capacity = 40, .request = 7};
  EXPECT_FALSE(slave_.run([&] { return slave_.service->open(request); }).get().outcome.failed);
  slave_.read(request.key).get();
  const SlabFigures seen = look_at(client_->slab("slave").value()->control());
  EXPECT_EQ(seen.work, OwnerWork::kIdle);
  EXPECT_EQ(seen.tokens_computed, 3u);
  EXPECT_EQ(seen.tokens_generated, 0u);
  EXPECT_EQ(seen.blocks_used, 2u);
  EXPECT_EQ(seen.blocks, 8u);
  ASSERT_EQ(seen.streams.size(), 1u);
  EXPECT_EQ(seen.streams[0].request, 7u);
  EXPECT_EQ(seen.streams[0].tokens, 3);
}

}  // namespace
}  // namespace suture::model_service_test
