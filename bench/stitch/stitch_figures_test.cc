#include "bench/stitch/stitch_figures.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

const std::vector<StitchRound> kRounds = {
    {.stitched = 8, .alone_as_many = 10, .alone = 12, .silent = 12},
    {.stitched = 10, .alone_as_many = 10, .alone = 12, .silent = 10},
    {.stitched = 10, .alone_as_many = 11, .alone = 11, .silent = 10}};

TEST(StitchFiguresTest, OverheadIsTheLongerTimeOfATokenInTheSameRound) {
  const StitchFigures f = stitch_figures(kRounds);
  EXPECT_EQ(f.stitched_tok_s.count, 3);
  EXPECT_EQ(f.stitched_tok_s.median, 10);
  EXPECT_EQ(f.alone_tok_s.median, 12);
  EXPECT_NEAR(f.overhead_as_many.median, 0.1, 1e-12);  // 0.25, 0, 0.1
  EXPECT_NEAR(f.overhead_as_many.high, 0.25, 1e-12);
  EXPECT_NEAR(f.overhead.median, 0.2, 1e-12);         // 0.5, 0.2, 0.1
  EXPECT_NEAR(f.silent_overhead.median, 0.1, 1e-12);  // 0, 0.2, 0.1
  EXPECT_NEAR(f.silent_overhead.low, 0, 1e-12);
}

TEST(StitchFiguresTest, JsonAndTableSayPercent) {
  StitchFigures f = stitch_figures(kRounds);
  f.model = "small";
  f.tokens = 1024;
  const auto json = to_json(f);
  EXPECT_EQ(json["model"], "small");
  EXPECT_EQ(json["tokens"], 1024);
  EXPECT_EQ(json["n"], 3);
  EXPECT_EQ(json["alone_as_many_tok_s"], 10);
  EXPECT_NEAR(json["overhead_against_as_many"]["percent"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(json["overhead_against_alone"]["percent"].get<double>(), 20, 1e-9);
  EXPECT_NEAR(json["overhead_of_silent"]["interval"][1].get<double>(), 20, 1e-9);
  const std::string table = stitch_table(f);
  for (const char* part : {"alone, 2048 own", "+10.0 % a token against alone, 2048 own (+0.0 to",
                           "+20.0 % a token against alone, 1024 own", "gain -inf, 1024 own"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

}  // namespace
}  // namespace suture
