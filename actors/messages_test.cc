#include "actors/messages.h"

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <limits>

#include "actors/caf_system.h"

namespace suture {
namespace {

// Through CAF's encoding and back.
template <typename T>
T carried(const T& message) {
  CafSystem system(nullptr, 1);
  std::vector<char> bytes;
  caf::binary_serializer sink(system.get(), bytes);
  EXPECT_FALSE(sink(message));
  T back;
  caf::binary_deserializer source(system.get(), bytes);
  EXPECT_FALSE(source(back));
  return back;
}

TEST(MessagesTest, AGenerateRequestComesBackAsItWasSent) {
  GenerateRequest request;
  request.request = 7;
  request.head_key = 4;
  request.head_entries = 20;
  request.token_ids = {1, -1, 151935};
  request.own = {{0, 0}, {20, 1500}};
  request.first_new_position = 1523;
  PlannedSegment segment;
  segment.source = 0;
  segment.position = SlavePosition::kAligned;
  segment.begin = 1;
  segment.end = PlannedSegment::kOpenEnd;
  segment.position_offset = -3;
  segment.rotation_shift = 12;
  segment.lag = 2;
  const float off = -std::numeric_limits<float>::infinity();
  request.sources = {{"slave",
                      {"owner", 3, 1ull << 63, {'\0', 'x'}, 6},
                      {segment},
                      true,
                      {std::bit_cast<uint32_t>(off), std::bit_cast<uint32_t>(-0.1f)},
                      {-1, 5},
                      true,
                      true}};
  request.sources[0].draft = true;
  request.stitch_end = 4096;
  request.max_tokens = 5;
  request.end_ids = {2};
  request.sampling = {.temperature = 0.55f, .top_k = 7, .top_p = 0.9f, .seed = ~0ull};
  request.ring = "answer/7";
  request.keep_key = 12;
  request.scored_tokens = 3;
  request.watch = {true, {"m", "slave"}, {"word", ""}, {{1, 1, 5, 1ll << 40}}};
  request.whole_ids = {1, 2, 3, -1};
  request.score_detail = {.top = 2, .watched = {9, 8, 7}};

  const GenerateRequest back = carried(request);
  EXPECT_EQ(back.token_ids, request.token_ids);
  EXPECT_EQ(back.own[1].position_offset, 1500);
  ASSERT_EQ(back.sources.size(), 1u);
  EXPECT_EQ(back.sources[0].gain(0), off);
  EXPECT_EQ(back.sources[0].gain(1), -0.1f);
  EXPECT_EQ(back.sources[0].stream.generation, 1ull << 63);
  EXPECT_EQ(back.sources[0].stream.info, (std::vector<char>{'\0', 'x'}));
  EXPECT_TRUE(back.sources[0].fail_when_lost);
  EXPECT_EQ(back.sources[0].layer_map, (std::vector<int32_t>{-1, 5}));
  EXPECT_TRUE(back.sources[0].other_vocabulary);
  EXPECT_TRUE(back.sources[0].projected);
  EXPECT_TRUE(back.sources[0].draft);
  EXPECT_EQ(back.sources[0].stream.first_entry, 6);
  EXPECT_EQ(back.whole_ids, request.whole_ids);
  EXPECT_EQ(back.stitch_end, 4096);
  const PlannedSegment& carried_segment = back.sources[0].segments.at(0);
  EXPECT_EQ(carried_segment.position, SlavePosition::kAligned);
  EXPECT_EQ(carried_segment.end, PlannedSegment::kOpenEnd);
  EXPECT_EQ(carried_segment.position_offset, -3);
  EXPECT_EQ(carried_segment.rotation_shift, 12);
  EXPECT_EQ(carried_segment.lag, 2);
  EXPECT_EQ(back.sampling.temperature, 0.55f);
  EXPECT_EQ(back.sampling.top_p, 0.9f);
  EXPECT_EQ(back.sampling.seed, ~0ull);
  EXPECT_EQ(back.keep_key, 12u);
  EXPECT_EQ(back.scored_tokens, 3);
  EXPECT_TRUE(back.watch.on);
  EXPECT_EQ(back.watch.readers, request.watch.readers);
  EXPECT_EQ(back.watch.keywords, request.watch.keywords);
  ASSERT_EQ(back.watch.entries.size(), 1u);
  EXPECT_EQ(back.watch.entries[0].keyword, 1);
  EXPECT_EQ(back.watch.entries[0].reader, 1);
  EXPECT_EQ(back.watch.entries[0].begin, 5);
  EXPECT_EQ(back.watch.entries[0].end, 1ll << 40);
  EXPECT_EQ(back.score_detail, request.score_detail);
  EXPECT_EQ(back.ring, "answer/7");
}

TEST(MessagesTest, WhatAModelSendsBackComesThroughWhole) {
  GenerateDone done;
  done.request = 3;
  done.outcome = Outcome::of(fail(ErrorCode::kLost, "what", "where", "remedy"));
  done.reason = FinishReason::kError;
  done.figures = {.name = "m", .role = "master", .prompt_tokens = 9, .prefill_seconds = 0.25};
  done.degraded = {{"slave", 12, "process exited"}};
  done.spans = {{"m", "decode", 1'000'000'000'000, 5}};
  done.scores = {{std::bit_cast<uint32_t>(-std::numeric_limits<float>::infinity()),
                  true,
                  {7, 2},
                  {1, 2},
                  {3}}};
  done.attention = {5, {"m", "s"}, {}, 1, {std::bit_cast<uint32_t>(0.25f), 0x7fc00000u}};
  const GenerateDone back = carried(done);
  EXPECT_EQ(back.outcome.status().error().message(), done.outcome.status().error().message());
  EXPECT_EQ(back.reason, FinishReason::kError);
  EXPECT_EQ(back.figures.prefill_seconds, 0.25);
  EXPECT_EQ(back.degraded[0].token, 12);
  EXPECT_EQ(back.scores, done.scores);
  EXPECT_EQ(back.attention, done.attention);
  EXPECT_EQ(back.spans[0].start_ns, 1'000'000'000'000);

  const ReadOpened opened = carried(ReadOpened{8, {}, {"owner", 1, 2, {'i'}}});
  EXPECT_EQ(opened.key, 8u);
  EXPECT_EQ(opened.stream.owner, "owner");
  const ReadRequest read = carried(ReadRequest{9, {1, 2}, 77, "ring", 8, 2, 1, "master"});
  EXPECT_EQ(read.text_of, "master");
  EXPECT_EQ(read.capacity, 77);
  EXPECT_EQ(read.follow_ring, "ring");
}

TEST(MessagesTest, ADraftIsAskedForAndComesBack) {
  ReadRequest request{.key = 9, .token_ids = {1, 2}};
  request.draft = {64, {7, -1}};
  const ReadRequest asked = carried(request);
  EXPECT_EQ(asked.draft.tokens, 64);
  EXPECT_EQ(asked.draft.end_ids, (std::vector<int32_t>{7, -1}));
  EXPECT_EQ(carried(ReadRequest{.key = 9}).draft.tokens, 0);
  ReadDone done;
  done.draft = {{"owner", 3, 4, {'i'}, 0}, 1ll << 33, (1ll << 33) + 2, {5, 6}, 0.5};
  const Draft back = carried(done).draft;
  EXPECT_EQ(back.stream.generation, 4u);
  EXPECT_EQ(back.begin, 1ll << 33);
  EXPECT_EQ(back.end, (1ll << 33) + 2);
  EXPECT_EQ(back.token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(back.seconds, 0.5);
}

}  // namespace
}  // namespace suture
