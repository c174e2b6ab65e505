#include "actors/process_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace suture {
namespace {

TEST(ProcessMemoryTest, GrowsByWhatIsTouched) {
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  const std::vector<char> block(64 << 20, 1);
  EXPECT_GE(resident_bytes() - before, 48 << 20) << "touched " << block.size();
}

TEST(ProcessMemoryTest, SeesOtherProcesses) {
  EXPECT_GT(resident_bytes(::getpid()), 0);
  EXPECT_EQ(resident_bytes(-1), 0);
}

}  // namespace
}  // namespace suture
