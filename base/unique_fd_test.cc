#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <utility>

namespace suture {
namespace {

int new_fd() { return ::memfd_create("unique_fd_test", MFD_CLOEXEC); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFdTest, ClosesAtTheEndOfItsScope) {
  int raw = -1;
  {
    const UniqueFd fd(new_fd());
    raw = fd.get();
    ASSERT_TRUE(fd.valid());
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFdTest, MovingHandsTheDescriptorOver) {
  UniqueFd first(new_fd());
  const int raw = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): the moved-from state is tested
  EXPECT_EQ(second.get(), raw);
  EXPECT_TRUE(is_open(raw));
}

TEST(UniqueFdTest, MoveAssignmentClosesWhatWasHeld) {
  UniqueFd kept(new_fd());
  UniqueFd replaced(new_fd());
  const int kept_raw = kept.get();
  const int replaced_raw = replaced.get();
  replaced = std::move(kept);
  EXPECT_EQ(replaced.get(), kept_raw);
  EXPECT_TRUE(is_open(kept_raw));
  EXPECT_FALSE(is_open(replaced_raw));
}

TEST(UniqueFdTest, ReleaseGivesUpOwnership) {
  UniqueFd fd(new_fd());
  const int raw = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(is_open(raw));
  ::close(raw);
}

}  // namespace
}  // namespace suture
