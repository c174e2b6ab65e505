#include "bench/load/process_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace suture {
namespace {

TEST(ProcessWatchTest, AFileAndAThreadMoreAreSeen) {
  const ProcessSample before = sample_process(::getpid());
  EXPECT_GT(before.heap_bytes, 0);
  EXPECT_GT(before.pss_bytes, before.heap_bytes);
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::jthread thread([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  const ProcessSample after = sample_process(::getpid());
  EXPECT_EQ(after.files, before.files + 1);
  EXPECT_EQ(after.threads, before.threads + 1);
}

TEST(ProcessWatchTest, AProcessThatIsGoneCountsNothing) {
  const ProcessSample sample = sample_process(-1);
  EXPECT_EQ(sample.pss_bytes, 0);
  EXPECT_EQ(sample.files, 0);
  EXPECT_EQ(sample.threads, 0);
}

TEST(ProcessWatchTest, GrowthIsCountedWithoutTheFirstFifth) {
  ProcessHistory history;
  for (int i = 0; i < 50; ++i) {
    history.seconds.push_back(i);
    history.samples.push_back({.heap_bytes = i < 10 ? 0.0 : 1000.0 + 2.0 * i});
  }
  const Slope growth = history.growth();
  EXPECT_NEAR(growth.slope, 120, 1e-6);
  EXPECT_NEAR(growth.high - growth.low, 0, 1e-6);
}

TEST(ProcessWatchTest, LooksAtTheBeginningAndAtTheEnd) {
  ProcessWatch watch({{"self", ::getpid()}}, std::chrono::hours(1));
  const auto histories = watch.finish();
  ASSERT_EQ(histories.size(), 1u);
  EXPECT_EQ(histories[0].name, "self");
  EXPECT_GE(histories[0].samples.size(), 1u);
  EXPECT_GT(histories[0].samples.back().threads, 1);
}

}  // namespace
}  // namespace suture
