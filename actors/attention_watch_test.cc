#include "actors/attention_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace suture {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

auto range(int32_t segment, int64_t begin, int64_t end, int32_t share) {
  return ::testing::AllOf(Field(&ObservedRange::segment, segment),
                          Field(&ObservedRange::begin, begin), Field(&ObservedRange::end, end),
                          Field(&ObservedRange::share, share));
}

class AttentionWatchTest : public testing::Test {
 protected:
  // A word that the master has read once, and slave "b" twice.
  const AttentionWatch watch_{.on = true,
                              .readers = {"m", "a", "b"},
                              .keywords = {"word"},
                              .entries = {{0, 0, 2, 3}, {0, 2, 5, 7}, {0, 2, 9, 10}}};
  AttentionWatcher watcher_ = AttentionWatcher::create(watch_, 2, 10, 12).value();
};

TEST_F(AttentionWatchTest, EverySegmentAndWordHasItsShare) {
  constexpr int64_t kAll = INT64_MAX;
  const std::vector<std::string> slaves = {"b", "a", "b", "nobody"};
  watcher_.lay_out(slaves.size(), [&](size_t i) { return slaves[i]; });
  const AttentionObservation& asked = *watcher_.observation();
  EXPECT_EQ(asked.n_shares, 6);
  EXPECT_EQ(asked.first_entry, 10);
  EXPECT_EQ(asked.end_entry, 12);
  EXPECT_EQ(asked.mass.size(), 12u);
  EXPECT_THAT(asked.ranges,
              ElementsAre(range(-1, 0, kAll, 0), range(-1, 2, 3, 3), range(0, 0, kAll, 2),
                          range(0, 5, 7, 5), range(0, 9, 10, 5), range(1, 0, kAll, 1),
                          range(2, 0, kAll, 2), range(2, 5, 7, 5), range(2, 9, 10, 5)));
  watcher_.lay_out(0, [](size_t) { return std::string(); });  // all are gone
  EXPECT_EQ(asked.ranges.size(), 2u);
}

TEST_F(AttentionWatchTest, SharesAreMeansOverRows) {
  EXPECT_TRUE(watcher_.shares().empty());
  AttentionObservation& seen = *watcher_.observation();
  seen.rows = 4;
  for (size_t i = 0; i < seen.mass.size(); ++i) seen.mass[i] = static_cast<double>(i);
  const AttentionShares shares = watcher_.shares();
  ASSERT_TRUE(check(shares));
  EXPECT_EQ(shares.tokens, 4);
  EXPECT_THAT(shares.readers, ElementsAre("m", "a", "b"));
  EXPECT_EQ(shares.share(0, 0, 0), 0);
  EXPECT_EQ(shares.share(0, 0, 2), 0.5);
  EXPECT_EQ(shares.share(1, 0, 0), 0.75);
  EXPECT_EQ(shares.share(0, 1, 1), 1.75);
  EXPECT_EQ(shares.share(1, 1, 2), 2.75);
  watcher_.restart();
  EXPECT_TRUE(watcher_.shares().empty());
}

TEST_F(AttentionWatchTest, WhatHasNoPlaceIsRefused) {
  const auto is_refused = [&](auto change) {
    AttentionWatch watch = watch_;
    change(watch);
    return !AttentionWatcher::create(watch, 2, 10, 12).has_value();
  };
  EXPECT_FALSE(is_refused([](auto&) {}));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.readers.clear(); }));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.readers.resize(33); }));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.entries[0].reader = 3; }));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.entries[0].reader = -1; }));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.entries[0].keyword = 1; }));
  EXPECT_TRUE(is_refused([](auto& watch) { watch.entries[0].keyword = -1; }));
}

}  // namespace
}  // namespace suture
