#include "bus/test_freeze.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <string>
#include <thread>

#include "bus/liveness.h"
#include "bus/test_child.h"

namespace suture {
namespace {

// Answers what it is told, with a second thread that does nothing.
SUTURE_TEST_CHILD(echo_with_threads) {
  std::promise<void> end;
  std::thread idle([&] { end.get_future().wait(); });
  for (std::string text = parent.hear(); !text.empty(); text = parent.hear()) parent.say(text);
  end.set_value();
  idle.join();
  return 0;
}

class FreezeTest : public ::testing::Test {
 protected:
  std::string ask(const std::string& text) const {
    child_.say(text);
    return child_.hear();
  }

  ChildProcess child_{"echo_with_threads"};
};

TEST_F(FreezeTest, StandsStillWithoutBeingStoppedAndGoesOnAfterwards) {
  ASSERT_EQ(ask("before"), "before");
  {
    const auto frozen = freeze(child_.pid());
    ASSERT_TRUE(frozen) << frozen.error().message();
    child_.say("meanwhile");
    EXPECT_EQ(read_process_state(child_.pid()).value(), 't');
  }
  EXPECT_EQ(child_.hear(), "meanwhile");
  EXPECT_EQ(ask("after"), "after");
}

TEST_F(FreezeTest, OnlyAKillEndsIt) {
  ASSERT_EQ(ask("before"), "before");
  const auto frozen = freeze(child_.pid());
  ASSERT_TRUE(frozen) << frozen.error().message();
  child_.signal(SIGTERM);
  EXPECT_EQ(read_process_state(child_.pid()).value(), 't');
  child_.signal(SIGKILL);
  EXPECT_EQ(child_.wait(), -SIGKILL);
}

TEST_F(FreezeTest, NoProcessIsAnError) {
  child_.signal(SIGKILL);
  child_.wait();
  EXPECT_FALSE(freeze(child_.pid()));
}

}  // namespace
}  // namespace suture
