#include "base/check.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(CheckTest, PassesAndEvaluatesTheConditionOnce) {
  int evaluations = 0;
  SUTURE_CHECK(++evaluations == 1, "evaluations={}", evaluations);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, AbortsWithConditionPlaceAndValues) {
  const int row = 7;
  const int rows = 5;
  EXPECT_DEATH(SUTURE_CHECK(row < rows, "row={} rows={}", row, rows),
               "check_test.cc:[0-9]+: broken invariant: row < rows \\(row=7 rows=5\\)");
}

}  // namespace
}  // namespace suture
