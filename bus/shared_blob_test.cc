#include "bus/shared_blob.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "bus/memfd.h"

namespace suture {
namespace {

constexpr uint64_t kBytes = 64 * 1024;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Status fill_with_sevens(std::span<std::byte> bytes) {
  std::ranges::fill(bytes, std::byte{7});
  return {};
}

TEST(SharedBlobTest, HoldsWhatWasFilledInAndNothingCanChangeIt) {
  const UniqueFd fd = make_shared_blob(kBytes, fill_with_sevens).value();
  const Mapping mapping = map_shared_blob(fd.get(), kBytes).value();
  EXPECT_TRUE(std::ranges::all_of(mapping.bytes(), [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_FALSE(Mapping::shared(fd.get(), kBytes, Mapping::Access::kReadWrite));
  EXPECT_NE(::mprotect(mapping.data(), kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_LT(::pwrite(fd.get(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(fd.get(), kBytes / 2), 0);
  EXPECT_NE(::ftruncate(fd.get(), 2 * kBytes), 0);
  EXPECT_NE(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
}

TEST(SharedBlobTest, FailureToFillIsReturned) {
  const auto blob = make_shared_blob(
      kBytes, [](std::span<std::byte>) -> Status { return fail(ErrorCode::kIo, "disk on fire"); });
  ASSERT_FALSE(blob);
  EXPECT_EQ(blob.error().what, "disk on fire");
}

TEST(SharedBlobTest, ShortageIsAnErrorBeforeAnythingIsFilled) {
  const auto blob = make_shared_blob(uint64_t{1} << 60, [](std::span<std::byte>) -> Status {
    ADD_FAILURE() << "there cannot be that much";
    return {};
  });
  EXPECT_EQ(blob.error().code, ErrorCode::kOutOfMemory);
}

TEST(SharedBlobTest, OtherDescriptorsAreRefused) {
  const UniqueFd blob = make_shared_blob(kBytes, fill_with_sevens).value();
  EXPECT_EQ(map_shared_blob(blob.get(), kBytes / 2).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(map_shared_blob(blob.get(), 2 * kBytes).error().code, ErrorCode::kCorrupt);
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
    const UniqueFd fd = create_memfd("test", kBytes).value();
    ASSERT_TRUE(seal_memfd(fd.get(), kAllSeals & ~missing));
    EXPECT_EQ(map_shared_blob(fd.get(), kBytes).error().code, ErrorCode::kPermission) << missing;
  }
  const UniqueFd unsealed = create_memfd("test", kBytes).value();
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, kAllSeals), 0);  // more seals can follow
  EXPECT_EQ(map_shared_blob(unsealed.get(), kBytes).error().code, ErrorCode::kPermission);
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(map_shared_blob(file.get(), kBytes).error().code, ErrorCode::kPermission);
}

TEST(SharedBlobTest, MemoryThatIsNotAllocatedIsRefused) {
  const UniqueFd sparse(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sparse.get(), kBytes), 0);
  ASSERT_TRUE(seal_memfd(sparse.get(), kAllSeals));
  EXPECT_EQ(map_shared_blob(sparse.get(), kBytes).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace suture
