#include "actors/engine_thread.h"

#include <gtest/gtest.h>

#include <vector>

namespace suture {
namespace {

TEST(EngineThreadTest, RunsJobsInOrderAndFinishesThemBeforeItEnds) {
  std::vector<int> order;
  {
    EngineThread engine;
    for (int i = 0; i < 100; ++i) engine.post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(EngineThreadTest, AJobMayPostAnother) {
  bool second = false;
  {
    EngineThread engine;
    engine.post([&] { engine.post([&] { second = true; }); });
  }
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace suture
