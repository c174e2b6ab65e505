#include "kernels/rope_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace suture {
namespace {

void expect_frequencies(const RopeTable& table, const std::vector<double>& expected) {
  ASSERT_EQ(table.frequencies.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(table.frequencies[i], expected[i], 2e-7 * expected[i]) << "frequency " << i;
}

RopeSchedule schedule_of(RopeScaling scaling, float theta, float factor, int64_t limit) {
  RopeSchedule schedule;
  schedule.scaling = scaling;
  schedule.theta = theta;
  schedule.factor = factor;
  schedule.original_positions = limit;
  return schedule;
}

RopeSchedule longrope() {
  RopeSchedule schedule = schedule_of(RopeScaling::kLongrope, 10000, 4, 32);
  schedule.short_factors = {1, 2};
  schedule.long_factors = {4, 8};
  return schedule;
}

TEST(RopeScheduleTest, PlainAndLinearFollowTheta) {
  expect_frequencies(rope_table(schedule_of(RopeScaling::kNone, 10000, 1, 0), 8, 0),
                     {1, 0.1, 0.01, 0.001});
  expect_frequencies(rope_table(schedule_of(RopeScaling::kLinear, 10000, 4, 0), 8, 0),
                     {0.25, 0.025, 0.0025, 0.00025});
}

// The literals below are the formulas of the transformers library (modeling_rope_utils), evaluated
// in Python.
TEST(RopeScheduleTest, YarnBlendsBetweenKeptAndDivided) {
  const auto small = rope_table(schedule_of(RopeScaling::kYarn, 1000, 4, 32), 16, 0);
  expect_frequencies(small, {1, 0.263560315, 0.0444569853, 0.0187473552, 0.00790569415,
                             0.00333380358, 0.00140585331, 0.000592843426});
  EXPECT_NEAR(small.attention_factor, 1.138629436, 1e-6);
  expect_frequencies(
      rope_table(schedule_of(RopeScaling::kYarn, 10000, 4, 4096), 16, 0),
      {1, 0.316227766, 0.1, 0.025693506, 0.00625, 0.00138349648, 0.00025, 7.90569415e-05});
  RopeSchedule stated = schedule_of(RopeScaling::kYarn, 10000, 4, 4096);
  stated.attention_factor = 1.5f;
  EXPECT_EQ(rope_table(stated, 16, 0).attention_factor, 1.5f);
}

TEST(RopeScheduleTest, Llama3StretchesLongWavelengths) {
  expect_frequencies(rope_table(schedule_of(RopeScaling::kLlama3, 10000, 8, 64), 16, 0),
                     {1, 0.244384599, 0.013042256, 0.00395284708, 0.00125, 0.000395284708, 0.000125,
                      3.95284708e-05});
  expect_frequencies(rope_table(schedule_of(RopeScaling::kLlama3, 500000, 8, 8192), 8, 0),
                     {1, 0.0376060309, 0.000524846161, 6.64786987e-06});
}

TEST(RopeScheduleTest, Llama3TakesDivisorsInPlaceOfItsFormula) {
  RopeSchedule schedule = schedule_of(RopeScaling::kLlama3, 10000, 1, 0);
  schedule.long_factors = {1, 2, 4, 8};
  ASSERT_TRUE(validate(schedule, 8));
  expect_frequencies(rope_table(schedule, 8, 0), {1, 0.05, 0.0025, 0.000125});
}

TEST(RopeScheduleTest, DynamicGrowsWithEveryPositionAboveTheLimit) {
  const RopeSchedule schedule = schedule_of(RopeScaling::kDynamic, 10000, 4, 32);
  EXPECT_EQ(rope_epoch(schedule, 1), 0);
  EXPECT_EQ(rope_epoch(schedule, 32), 0);
  EXPECT_EQ(rope_epoch(schedule, 33), 33);
  EXPECT_EQ(rope_epoch(schedule, 48), 48);
  expect_frequencies(rope_table(schedule, 8, 0), {1, 0.1, 0.01, 0.001});
  expect_frequencies(rope_table(schedule, 8, 48), {1, 0.0693361274, 0.00480749857, 0.000333333333});
}

TEST(RopeScheduleTest, LongropeChangesOnceAtTheLimit) {
  const RopeSchedule schedule = longrope();
  EXPECT_EQ(rope_epoch(schedule, 32), 0);
  EXPECT_EQ(rope_epoch(schedule, 33), 33);
  EXPECT_EQ(rope_epoch(schedule, 100), 33);
  expect_frequencies(rope_table(schedule, 4, 0), {1, 0.005});
  expect_frequencies(rope_table(schedule, 4, 33), {0.25, 0.00125});
  // The same factor below the limit and above it.
  EXPECT_NEAR(rope_table(schedule, 4, 0).attention_factor, 1.1832159566, 1e-6);
  EXPECT_NEAR(rope_table(schedule, 4, 33).attention_factor, 1.1832159566, 1e-6);
}

TEST(RopeScheduleTest, FixedLengthMakesOneEpochOfAll) {
  RopeSchedule schedule = longrope();
  schedule.fixed_length = 64;
  EXPECT_EQ(rope_epoch(schedule, 1), 33);
  expect_frequencies(rope_table(schedule, 4, rope_epoch(schedule, 1)), {0.25, 0.00125});
  schedule.fixed_length = 16;
  EXPECT_EQ(rope_epoch(schedule, 100), 0);
  expect_frequencies(rope_table(schedule, 4, 0), {1, 0.005});
}

TEST(RopeScheduleTest, OneEpochServesSeveralSchedules) {
  const std::vector<RopeSchedule> schedules = {longrope(),
                                               schedule_of(RopeScaling::kDynamic, 10000, 4, 64),
                                               schedule_of(RopeScaling::kNone, 10000, 1, 0)};
  for (const int64_t length : {1, 32, 33, 64, 65, 200}) {
    const int64_t epoch = rope_epoch(schedules, length);
    for (const RopeSchedule& schedule : schedules)
      EXPECT_EQ(rope_epoch(schedule, epoch), rope_epoch(schedule, length)) << "length " << length;
  }
}

TEST(RopeScheduleTest, NamesAreThoseOfFiles) {
  for (const char* name : {"none", "linear", "dynamic", "yarn", "llama3", "longrope"}) {
    const auto scaling = rope_scaling_of(name);
    ASSERT_TRUE(scaling) << name;
    EXPECT_EQ(rope_scaling_name(*scaling), name);
  }
  EXPECT_EQ(rope_scaling_of("default"), RopeScaling::kNone);
  EXPECT_EQ(rope_scaling_of("su"), RopeScaling::kLongrope);
  EXPECT_EQ(rope_scaling_of("proportional"), std::nullopt);
  EXPECT_EQ(known_rope_scalings(), "none, linear, dynamic, yarn, llama3, longrope");
}

TEST(RopeScheduleTest, RefusesNumbersThatMakeNoTable) {
  const auto refused = [](void (*change)(RopeSchedule&), RopeScaling scaling) {
    RopeSchedule schedule = schedule_of(scaling, 10000, 4, 32);
    if (scaling == RopeScaling::kLongrope) schedule = longrope();
    EXPECT_TRUE(validate(schedule, 4));
    change(schedule);
    return !validate(schedule, 4);
  };
  using S = RopeSchedule;
  EXPECT_TRUE(refused([](S& s) { s.theta = 0.5f; }, RopeScaling::kNone));
  EXPECT_TRUE(refused([](S& s) { s.theta = NAN; }, RopeScaling::kNone));
  EXPECT_TRUE(refused([](S& s) { s.attention_factor = -1; }, RopeScaling::kNone));
  EXPECT_TRUE(refused([](S& s) { s.fixed_length = -1; }, RopeScaling::kNone));
  EXPECT_TRUE(refused([](S& s) { s.factor = 0.5f; }, RopeScaling::kLinear));
  EXPECT_TRUE(refused([](S& s) { s.factor = INFINITY; }, RopeScaling::kLinear));
  EXPECT_TRUE(refused([](S& s) { s.original_positions = 0; }, RopeScaling::kDynamic));
  EXPECT_TRUE(refused([](S& s) { s.theta = 1; }, RopeScaling::kYarn));
  EXPECT_TRUE(refused([](S& s) { s.beta_slow = 0; }, RopeScaling::kYarn));
  EXPECT_TRUE(refused([](S& s) { s.beta_fast = 0.5f; }, RopeScaling::kYarn));
  EXPECT_TRUE(refused([](S& s) { s.high_freq_factor = 1; }, RopeScaling::kLlama3));
  EXPECT_TRUE(refused([](S& s) { s.long_factors = {1}; }, RopeScaling::kLlama3));
  EXPECT_TRUE(refused([](S& s) { s.short_factors.pop_back(); }, RopeScaling::kLongrope));
  EXPECT_TRUE(refused([](S& s) { s.long_factors[1] = 0; }, RopeScaling::kLongrope));
  EXPECT_TRUE(refused([](S& s) { s.scaling = static_cast<RopeScaling>(9); }, RopeScaling::kNone));
  EXPECT_FALSE(validate(schedule_of(RopeScaling::kDynamic, 10000, 4, 32), 2));
  EXPECT_FALSE(validate(schedule_of(RopeScaling::kNone, 10000, 1, 0), 3));
}

}  // namespace
}  // namespace suture
