#include "bus/payload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "bus/memfd.h"
#include "bus/test_child.h"

namespace suture {
namespace {

constexpr uint64_t kBytes = 64 * 1024;

// Every way to write a payload from outside its owner; names the first that works.
std::string way_to_write(int fd) {
  if (::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
    return "a writable mapping";
  void* read_only = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (read_only == MAP_FAILED) return "none, but it cannot be read";
  if (::mprotect(read_only, kBytes, PROT_READ | PROT_WRITE) == 0) return "mprotect";
  ::munmap(read_only, kBytes);
  if (::pwrite(fd, "x", 1, 0) >= 0) return "pwrite";
  if (::ftruncate(fd, kBytes / 2) == 0) return "ftruncate";
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes) == 0) return "a hole";
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0) return "more seals";
  const UniqueFd again(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR));
  if (again.valid() &&
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) != MAP_FAILED)
    return "opening it again";
  return "none";
}

SUTURE_TEST_CHILD(payload_attacker) {
  const std::vector<UniqueFd> fds = parent.hear_fds();
  parent.say(way_to_write(fds.at(0).get()));
  return 0;
}

TEST(PayloadTest, OwnerWritesWhatReadersSee) {
  auto payload = Payload::create(kBytes);
  ASSERT_TRUE(payload) << payload.error().message();
  const auto view = Payload::open_read_only(payload->fd(), kBytes);
  ASSERT_TRUE(view) << view.error().message();
  EXPECT_EQ(view->data()[kBytes - 1], std::byte{0});
  payload->data()[kBytes - 1] = std::byte{42};
  EXPECT_EQ(view->data()[kBytes - 1], std::byte{42});
}

TEST(PayloadTest, NoOtherProcessCanWriteIt) {
  const auto payload = Payload::create(kBytes);
  ASSERT_TRUE(payload);
  ChildProcess attacker("payload_attacker");
  const int fd = payload->fd();
  attacker.say("payload", {&fd, 1});
  EXPECT_EQ(attacker.hear(), "none");
  EXPECT_EQ(attacker.wait(), 0);
}

TEST(PayloadTest, AllMemoryIsAllocatedAtOnce) {
  const auto payload = Payload::create(kBytes);
  ASSERT_TRUE(payload);
  struct stat info {};
  ASSERT_EQ(::fstat(payload->fd(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kBytes);
}

TEST(PayloadTest, ShortageIsAnErrorWithSizes) {
  const auto payload = Payload::create(uint64_t{1} << 50);  // a pebibyte
  ASSERT_FALSE(payload);
  EXPECT_EQ(payload.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(payload.error().what.find("1073741824.0 MiB"), std::string::npos)
      << payload.error().what;
}

TEST(PayloadTest, ReadersRefuseUnsealedMemory) {
  auto fd = create_memfd("test", kBytes);
  ASSERT_TRUE(fd);
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE}) {
    ASSERT_EQ(::fcntl(fd->get(), F_ADD_SEALS, seals), 0);
    const auto view = Payload::open_read_only(fd->get(), kBytes);
    ASSERT_FALSE(view) << "seals " << seals;
    EXPECT_EQ(view.error().code, ErrorCode::kPermission);
  }
  ASSERT_TRUE(seal_memfd(fd->get(), 0));
  EXPECT_TRUE(Payload::open_read_only(fd->get(), kBytes));
}

TEST(PayloadTest, ReadersRefuseAnotherSizeAndOtherFiles) {
  const auto payload = Payload::create(kBytes);
  ASSERT_TRUE(payload);
  const auto longer = Payload::open_read_only(payload->fd(), kBytes * 2);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kCorrupt);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(Payload::open_read_only(null.get(), kBytes));
  EXPECT_FALSE(Payload::open_read_only(-1, kBytes));
}

}  // namespace
}  // namespace suture
