#include "launcher/fit/fit_memory.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

constexpr uint64_t kDouble = 8;

FitDemand demand() {
  return {
      .shape = {.source_layers = 24, .source_width = 128, .target_layers = 28, .target_width = 256},
      .windows = {8, 24},
      .n_kinds = 4,
      .rows = 512,
      .threads = 2,
      .models_bytes = 2'000'000'000,
      .limit_bytes = uint64_t{16} << 30};
}

TEST(FitMemory, IsThatOfTheSumsOfProducts) {
  const auto plan = plan_fit(demand());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->shape.widest, 24);
  EXPECT_EQ(plan->windows, (std::vector<int32_t>{8, 24}));
  EXPECT_EQ(plan->n_kinds, 4);
  // Blocks of 128 x 128 on and above the diagonal, and all with the target's columns.
  const uint64_t blocks = 24 * 25 / 2;
  const uint64_t products = blocks * 128 * 128 + 3072 * 7168;
  const uint64_t sums = 3072 + 2 * 7168;
  const uint64_t origins = 3072 + 7168;
  EXPECT_EQ(plan->memory.moments_bytes, 2 * kDouble * (5 * (products + sums) + origins));
  EXPECT_GE(plan->memory.rows_bytes, 2 * 512 * (3072 + 7168) * 4U);
  EXPECT_GE(plan->memory.solving_bytes, kDouble * (products + 2 * 3072 * 3072));
}

TEST(FitMemory, CountsTheTargetsOwnFirstLayer) {
  FitDemand own = demand();
  own.shape.own_layers = 1;
  const auto without = plan_fit(demand());
  const auto plan = plan_fit(own);
  ASSERT_TRUE(without && plan);
  // 256 columns more with all of both models; of all rows, and of each of four kinds.
  EXPECT_EQ(plan->memory.moments_bytes - without->memory.moments_bytes,
            2 * kDouble * 5 * 256 * (3072 + 7168));
  EXPECT_GE(plan->memory.solving_bytes, kDouble * 2 * (3072 + 256) * (3072 + 256));
}

TEST(FitMemory, GivesUpKindsThenWindows) {
  FitDemand less = demand();
  const auto all = plan_fit(less);
  ASSERT_TRUE(all);
  less.limit_bytes = all->memory.most_bytes() - 1;
  const auto one_kind = plan_fit(less);
  ASSERT_TRUE(one_kind);
  EXPECT_EQ(one_kind->n_kinds, 1);
  EXPECT_EQ(one_kind->shape.widest, 24);
  less.limit_bytes = one_kind->memory.most_bytes() - 1;
  const auto narrow = plan_fit(less);
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->windows, (std::vector<int32_t>{8}));
  EXPECT_LE(narrow->memory.most_bytes(), less.limit_bytes);
}

TEST(FitMemory, RefusesWhatDoesNotFitWithBothNumbers) {
  FitDemand much = demand();
  much.windows_are_fixed = true;
  much.limit_bytes = 2'500'000'000;
  const auto plan = plan_fit(much);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(plan.error().what.find("2500 MB"), std::string::npos);
  EXPECT_NE(plan.error().remedy.find("--window"), std::string::npos);
  much.windows_are_fixed = false;
  much.limit_bytes = 2'000'000'000;
  ASSERT_FALSE(plan_fit(much));
  EXPECT_NE(plan_fit(much).error().remedy.find("--memory"), std::string::npos);
}

}  // namespace
}  // namespace suture
