#include "launcher/progress.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(ProgressTextTest, ShowsShareSizeAndSpeed) {
  EXPECT_EQ(progress_text(500'000'000, 1'000'000'000, 21e6, 10),
            "[=====>    ]  50 %  500 of 1000 MB  21 MB/s");
  EXPECT_EQ(progress_text(0, 1'000'000, 0, 4), "[>   ]   0 %  0 of 1 MB  0 MB/s");
}

TEST(ProgressTextTest, StaysWholeAtTheEnds) {
  EXPECT_EQ(progress_text(0, 0, 0, 4), "[====] 100 %  0 of 0 MB  0 MB/s");
  EXPECT_EQ(progress_text(3'000'000, 2'000'000, 0, 4), "[====] 100 %  3 of 2 MB  0 MB/s");
}

TEST(ProgressBarTest, IsAsLongAsAsked) {
  EXPECT_EQ(progress_bar(0, 4), "[>   ]");
  EXPECT_EQ(progress_bar(0.5, 4), "[==> ]");
  EXPECT_EQ(progress_bar(1, 4), "[====]");
}

// Standard error is no terminal where tests run.
TEST(StepProgressTest, GivesALineForEachNewTenth) {
  testing::internal::CaptureStderr();
  {
    StepProgress progress("model");
    progress.update("first", 0, 40);
    progress.update("second", 1, 40);
    progress.update("third", 4, 40);
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_EQ(shown,
            "model [>                             ]   0 %  first       \n"
            "model [===>                          ]  10 %  third       \n");
}

TEST(Duration, IsInTheUnitThatPeopleWouldUse) {
  EXPECT_EQ(duration_text(41.6), "42 s");
  EXPECT_EQ(duration_text(12 * 60), "12 min");
  EXPECT_EQ(duration_text(5401), "1.5 h");
}

}  // namespace
}  // namespace suture
