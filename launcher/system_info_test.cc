#include "launcher/system_info.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(SystemInfoTest, ReadsMeminfo) {
  constexpr std::string_view kText =
      "MemTotal:       24580384 kB\nMemFree:          1000 kB\nMemAvailable:   22000000 kB\n";
  EXPECT_EQ(meminfo_bytes(kText, "MemTotal"), 24580384ull * 1024);
  EXPECT_EQ(meminfo_bytes(kText, "MemAvailable"), 22000000ull * 1024);
  EXPECT_EQ(meminfo_bytes(kText, "Available"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable:", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("", "MemAvailable"), std::nullopt);
}

TEST(SystemInfoTest, ThisComputerHasCoresAndMemory) {
  EXPECT_GE(allowed_cores(), 1);
  EXPECT_GT(available_memory_bytes(), 1u << 20);
}

}  // namespace
}  // namespace suture
