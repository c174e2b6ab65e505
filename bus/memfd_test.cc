#include "bus/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace suture {
namespace {

TEST(MemfdTest, HasItsSizeAndZeroBytes) {
  const auto fd = create_memfd("test", 5000);
  ASSERT_TRUE(fd) << fd.error().message();
  EXPECT_EQ(memfd_size(fd->get()).value(), 5000u);
  char last = 1;
  ASSERT_EQ(::pread(fd->get(), &last, 1, 4999), 1);
  EXPECT_EQ(last, 0);
}

TEST(MemfdTest, DoesNotOutliveAnExec) {
  const auto fd = create_memfd("test", 1);
  ASSERT_TRUE(fd);
  EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(MemfdTest, RefusesImpossibleSizes) {
  EXPECT_EQ(create_memfd("test", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(create_memfd("test", ~uint64_t{0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(create_memfd("test", uint64_t{1} << 60).error().code, ErrorCode::kOutOfMemory);
}

TEST(MemfdTest, SealsAreFinal) {
  const auto fd = create_memfd("test", 4096);
  ASSERT_TRUE(fd);
  ASSERT_TRUE(seal_memfd(fd->get(), F_SEAL_GROW));
  EXPECT_FALSE(seal_memfd(fd->get(), F_SEAL_SHRINK));
  EXPECT_TRUE(verify_memfd(fd->get(), F_SEAL_GROW | F_SEAL_SEAL, 4096));
  EXPECT_EQ(verify_memfd(fd->get(), F_SEAL_SHRINK, 4096).error().code, ErrorCode::kPermission);
  EXPECT_EQ(verify_memfd(fd->get(), F_SEAL_GROW, 8192).error().code, ErrorCode::kCorrupt);
}

TEST(MemfdTest, OtherDescriptorsAreErrors) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  EXPECT_EQ(memfd_size(reader.get()).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(memfd_size(-1).error().code, ErrorCode::kIo);
  EXPECT_EQ(verify_memfd(reader.get(), 0, 0).error().code, ErrorCode::kPermission);
}

}  // namespace
}  // namespace suture
