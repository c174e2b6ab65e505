#include "kernels/affine.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/test_kv.h"

namespace suture {
namespace {

TEST(AffineTest, TakesGroupsLessTheirMeans) {
  const std::vector<float> x = {1,  2,  3,  4,  5,  6,    // row 0: (1 2) (3 4) (5 6)
                                10, 20, 30, 40, 50, 60};  // row 1
  const std::vector<int32_t> groups = {2, 0};
  const std::vector<float> mean = {1, 2, 3, 4};
  std::vector<float> out(8);
  CentreGroupsArgs args{.x = x.data(),
                        .n_rows = 2,
                        .n_groups = 3,
                        .width = 2,
                        .groups = groups,
                        .mean = mean.data(),
                        .out = out.data()};
  ASSERT_TRUE(centre_groups(*cpu_stream(2), args));
  EXPECT_EQ(out, (std::vector<float>{4, 4, -2, -2, 49, 58, 7, 16}));
  const std::vector<float> scale = {1, 0.5, 2, 0};
  args.scale = scale.data();
  ASSERT_TRUE(centre_groups(*cpu_stream(2), args));
  EXPECT_EQ(out, (std::vector<float>{4, 2, -4, 0, 49, 29, 14, 0}));
}

TEST(AffineTest, LeavesRoomBetweenRowsWhereItIsToldTo) {
  const std::vector<float> x = {1, 2, 3, 4};  // two rows of one group
  const std::vector<int32_t> groups = {0};
  const std::vector<float> mean = {1, 1};
  std::vector<float> out(6, 9);
  const CentreGroupsArgs args{.x = x.data(),
                              .n_rows = 2,
                              .n_groups = 1,
                              .width = 2,
                              .groups = groups,
                              .mean = mean.data(),
                              .out = out.data(),
                              .out_stride = 3};
  ASSERT_TRUE(centre_groups(*cpu_stream(2), args));
  EXPECT_EQ(out, (std::vector<float>{0, 1, 9, 2, 3, 9}));
}

TEST(AffineTest, ScalesAndShiftsColumns) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<float> scale = {2, 0, -1}, shift = {0, 1, 10};
  const ScaleShiftArgs args{
      .x = x.data(), .scale = scale.data(), .shift = shift.data(), .n_rows = 2, .width = 3};
  ASSERT_TRUE(scale_shift(*cpu_stream(2), args));
  EXPECT_EQ(x, (std::vector<float>{2, 1, 7, 8, 1, 4}));
}

TEST(AffineTest, RefusesArgumentsOutsideTheContract) {
  auto stream = cpu_stream(1);
  std::vector<float> x(6), out(6);
  std::vector<int32_t> groups = {0, 1};
  const CentreGroupsArgs good{.x = x.data(),
                              .n_rows = 1,
                              .n_groups = 2,
                              .width = 3,
                              .groups = groups,
                              .mean = x.data(),
                              .out = out.data()};
  EXPECT_TRUE(centre_groups(*stream, good));
  CentreGroupsArgs bad = good;
  bad.n_groups = 1;
  EXPECT_FALSE(centre_groups(*stream, bad));
  bad = good;
  bad.width = 0;
  EXPECT_FALSE(centre_groups(*stream, bad));
  bad = good;
  bad.out_stride = 5;
  EXPECT_FALSE(centre_groups(*stream, bad));
  bad = good;
  bad.mean = nullptr;
  EXPECT_FALSE(centre_groups(*stream, bad));
  groups[1] = -1;
  EXPECT_FALSE(centre_groups(*stream, good));
  EXPECT_FALSE(scale_shift(*stream, {.x = x.data(), .n_rows = 1, .width = 6}));
  EXPECT_FALSE(scale_shift(*stream, {.n_rows = -1}));
}

}  // namespace
}  // namespace suture
