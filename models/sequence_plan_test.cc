#include "models/sequence_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace suture {
namespace {

TEST(SequencePlanTest, EntriesSitWhereTheirRunPutsThem) {
  SequencePlan plan{.own = {{0, 5}, {3, 20}, {3, 30}, {10, 0}}, .before = {}, .after = {}};
  EXPECT_EQ(position_of(plan, 0), 5);
  EXPECT_EQ(position_of(plan, 2), 7);
  EXPECT_EQ(position_of(plan, 3), 33);
  EXPECT_EQ(position_of(plan, 9), 39);
  EXPECT_EQ(position_of(plan, 10), 10);
  plan.own.clear();
  EXPECT_EQ(position_of(plan, 4), 4);
}

TEST(SequencePlanTest, RowRulesSayWhereAQueryStopsSeeing) {
  const std::vector<int64_t> visible_from = {0, 4, 4, 9};
  ForeignSegment segment;
  segment.end = 3;
  EXPECT_FALSE(has_row_rule(segment));
  segment.visible_from = visible_from;
  EXPECT_TRUE(has_row_rule(segment));
  EXPECT_EQ(row_visible_end(segment, -1), 0);
  EXPECT_EQ(row_visible_end(segment, 3), 1);
  EXPECT_EQ(row_visible_end(segment, 4), 3);
  EXPECT_EQ(row_visible_end(segment, 9), 3);  // no further than the segment
  segment.visible_until = 9;
  EXPECT_EQ(row_visible_end(segment, 8), 3);
  EXPECT_EQ(row_visible_end(segment, 9), 0);
  segment.visible_from = {};
  EXPECT_TRUE(has_row_rule(segment));
  EXPECT_EQ(row_visible_end(segment, 2), 3);
}

TEST(SequencePlanTest, PlansThatContradictThemselvesAreRefused) {
  ModelConfig config;
  config.n_layers = 2;
  config.n_heads = 4;
  SequencePlan plan;
  EXPECT_TRUE(check_plan(plan, config));
  plan.own = {{0, 0}, {5, 0}, {4, 0}};
  EXPECT_FALSE(check_plan(plan, config));
  plan.own = {{1, 0}};
  EXPECT_FALSE(check_plan(plan, config));
  plan.own = {{0, 0}};
  ForeignSegment& segment = plan.after.emplace_back();
  EXPECT_FALSE(check_plan(plan, config));
  segment.layers.resize(2);
  EXPECT_TRUE(check_plan(plan, config));
  segment.log_gain.resize(7);
  EXPECT_FALSE(check_plan(plan, config));
  segment.log_gain.resize(8);
  segment.begin = 3;
  EXPECT_FALSE(check_plan(plan, config));
  segment.end = int64_t{INT32_MAX} + 1;
  EXPECT_FALSE(check_plan(plan, config));
  segment.end = 4;
  EXPECT_TRUE(check_plan(plan, config));
  const std::vector<int64_t> too_short(3);
  segment.visible_from = too_short;
  EXPECT_FALSE(check_plan(plan, config));
}

}  // namespace
}  // namespace suture
