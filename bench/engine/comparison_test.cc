#include "bench/engine/comparison.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

// Ours takes 1, 2, 4 s for what takes the peer 3 s each time, on both of its cores.
const std::vector<Pair> kPairs = {{{1, 2}, {3, 6}}, {{2, 3}, {3, 6}}, {{4, 8}, {3, 6}}};

TEST(ComparisonTest, SpeedsAreTokensASecondAndRatiosOfPairs) {
  Comparison c = compare(kPairs, 12);
  EXPECT_DOUBLE_EQ(c.ours.median, 6);
  EXPECT_DOUBLE_EQ(c.ours.low, 3);
  EXPECT_DOUBLE_EQ(c.ours.high, 12);
  EXPECT_DOUBLE_EQ(c.peer.median, 4);
  EXPECT_DOUBLE_EQ(c.ratio.median, 1.5);
  EXPECT_DOUBLE_EQ(c.ratio.low, 0.75);
  EXPECT_DOUBLE_EQ(c.ratio.high, 3);
  EXPECT_EQ(c.ratio.count, 3);
  EXPECT_DOUBLE_EQ(c.cpu_ratio, 2);
}

TEST(ComparisonTest, APeerThatLacksCoresIsDisturbed) {
  Comparison c = compare(kPairs, 12);
  EXPECT_DOUBLE_EQ(c.peer_cores, 2);
  c.threads = 2;
  EXPECT_FALSE(c.disturbed());
  c.threads = 3;
  EXPECT_TRUE(c.disturbed());
}

TEST(ComparisonTest, StartsAreSeconds) {
  const Comparison c = compare_starts(kPairs);
  EXPECT_DOUBLE_EQ(c.ours.median, 2);
  EXPECT_DOUBLE_EQ(c.peer.median, 3);
  EXPECT_DOUBLE_EQ(c.ratio.median, 1.5);
  EXPECT_FALSE(c.disturbed());
  const auto json = to_json(c);
  EXPECT_EQ(json["task"], "start");
  EXPECT_EQ(json["ours_s"], 2);
  EXPECT_EQ(json["peer_s"], 3);
}

TEST(ComparisonTest, TableAndJsonNameEverything) {
  Comparison c = compare(kPairs, 12);
  c.model = "small";
  c.threads = 2;
  c.task = "prefill 12";
  const std::string table = comparison_table(std::vector{c});
  for (const char* part : {"small", "prefill 12", "6.0", "4.0", "1.50", "0.75 to 3.00"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  EXPECT_EQ(table.find("disturbed"), std::string::npos) << table;
  const auto json = to_json(c);
  EXPECT_EQ(json["model"], "small");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["n"], 3);
  EXPECT_EQ(json["ours_tok_s"], 6);
  EXPECT_EQ(json["peer_tok_s"], 4);
  EXPECT_EQ(json["ratio"], 1.5);
  EXPECT_EQ(json["ratio_interval"], (nlohmann::json{0.75, 3}));
  EXPECT_EQ(json["disturbed"], false);
}

}  // namespace
}  // namespace suture
