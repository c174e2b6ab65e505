#include "base/mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace suture {
namespace {

constexpr size_t kSize = 4096;

UniqueFd new_memfd() {
  UniqueFd fd(::memfd_create("mapping_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.valid() && ::ftruncate(fd.get(), kSize) != 0) fd.reset();
  return fd;
}

// A folder of this test's own, removed with everything in it.
class MappingFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "mapping_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST(MappingTest, TwoMappingsOfOneDescriptorSeeEachOther) {
  const UniqueFd fd = new_memfd();
  ASSERT_TRUE(fd.valid());
  const auto writer = Mapping::shared(fd.get(), kSize, Mapping::Access::kReadWrite);
  const auto reader = Mapping::shared(fd.get(), kSize, Mapping::Access::kReadOnly);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(reader.has_value());
  writer->data()[100] = std::byte{42};
  EXPECT_EQ(reader->bytes()[100], std::byte{42});
}

TEST(MappingTest, SealedDescriptorRefusesAWritableMapping) {
  const UniqueFd fd = new_memfd();
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  const auto writable = Mapping::shared(fd.get(), kSize, Mapping::Access::kReadWrite);
  ASSERT_FALSE(writable.has_value());
  EXPECT_EQ(writable.error().code, ErrorCode::kIo);
  EXPECT_TRUE(Mapping::shared(fd.get(), kSize, Mapping::Access::kReadOnly).has_value());
}

TEST(MappingTest, MovingHandsTheMappingOver) {
  const UniqueFd fd = new_memfd();
  auto first = Mapping::shared(fd.get(), kSize, Mapping::Access::kReadWrite);
  ASSERT_TRUE(first.has_value());
  std::byte* const address = first->data();
  Mapping second(std::move(*first));
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(first->data(), nullptr);
  EXPECT_EQ(first->size(), 0u);
}

TEST_F(MappingFileTest, MapsTheWholeFile) {
  const auto path = folder_ / "text";
  std::ofstream(path) << "suture";
  const auto mapping = Mapping::file(path);
  ASSERT_TRUE(mapping.has_value());
  ASSERT_EQ(mapping->size(), 6u);
  EXPECT_EQ(std::memcmp(mapping->data(), "suture", 6), 0);
}

TEST_F(MappingFileTest, EmptyFileGivesAnEmptyMapping) {
  const auto path = folder_ / "empty";
  std::ofstream(path).close();
  const auto mapping = Mapping::file(path);
  ASSERT_TRUE(mapping.has_value());
  EXPECT_EQ(mapping->size(), 0u);
  EXPECT_TRUE(mapping->bytes().empty());
}

TEST_F(MappingFileTest, MissingFileIsAnErrorThatNamesIt) {
  const auto path = folder_ / "missing";
  const auto mapping = Mapping::file(path);
  ASSERT_FALSE(mapping.has_value());
  EXPECT_EQ(mapping.error().where, path.string());
}

TEST_F(MappingFileTest, FoldersAndFifosAreRefusedWithoutWaiting) {
  const auto fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& path : {folder_, fifo}) {
    const auto mapping = Mapping::file(path);
    ASSERT_FALSE(mapping.has_value());
    EXPECT_EQ(mapping.error().code, ErrorCode::kInvalidArgument);
  }
}

// Pages of this process's mappings that are in memory.
int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident;
}

TEST(MappingTest, PageInEntersEveryPage) {
  constexpr size_t kBytes = 16 << 20;
  const UniqueFd fd(::memfd_create("pages", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const auto mapping = Mapping::shared(fd.get(), kBytes, Mapping::Access::kReadOnly);
  ASSERT_TRUE(mapping.has_value()) << mapping.error().message();
  const int64_t before = resident_pages();
  page_in({});
  page_in(mapping->bytes().subspan(100, kBytes / 2));  // from the middle of a page
  const auto half = static_cast<int64_t>(kBytes / 2) / ::sysconf(_SC_PAGESIZE);
  EXPECT_GE(resident_pages() - before, half - 64);
}

TEST(MappingTest, PageOutGivesPagesBackAndLosesNothing) {
  constexpr size_t kBytes = 16 << 20;
  const UniqueFd fd(::memfd_create("pages", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const auto mapping = Mapping::shared(fd.get(), kBytes, Mapping::Access::kReadWrite);
  ASSERT_TRUE(mapping.has_value()) << mapping.error().message();
  std::memset(mapping->data(), 42, kBytes);
  const int64_t before = resident_pages();
  page_out({});
  page_out(mapping->bytes().subspan(100, kBytes / 2));
  const auto half = static_cast<int64_t>(kBytes / 2) / ::sysconf(_SC_PAGESIZE);
  EXPECT_GE(before - resident_pages(), half - 64);
  EXPECT_EQ(mapping->data()[100], std::byte{42});
  EXPECT_EQ(mapping->data()[kBytes / 4], std::byte{42});
}

TEST(MappingTest, LargeMappingsStartWhereAHugePageCan) {
  constexpr size_t kHuge = size_t{2} << 20;
  constexpr size_t kBytes = 2 * kHuge + 5000;
  const auto own = Mapping::anonymous(kBytes);
  ASSERT_TRUE(own.has_value()) << own.error().message();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(own->data()) % kHuge, 0u);
  EXPECT_EQ(own->data()[kBytes - 1], std::byte{0});
  own->data()[kBytes - 1] = std::byte{42};

  const UniqueFd fd(::memfd_create("huge", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const auto mapping = Mapping::shared(fd.get(), kBytes, Mapping::Access::kReadWrite);
  ASSERT_TRUE(mapping.has_value()) << mapping.error().message();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping->data()) % kHuge, 0u);
  back_with_huge_pages({mapping->data(), mapping->size()});
  mapping->data()[kBytes - 1] = std::byte{42};
  const auto again = Mapping::shared(fd.get(), kBytes, Mapping::Access::kReadOnly);
  EXPECT_EQ(again->data()[0], std::byte{0});
  EXPECT_EQ(again->data()[kBytes - 1], std::byte{42});
}

TEST(MappingTest, MappingsLeaveNoAddressSpaceBehind) {
  const auto size_pages = [] {
    std::ifstream statm("/proc/self/statm");
    int64_t total = 0;
    statm >> total;
    return total;
  };
  for (const size_t bytes : {size_t{100}, size_t{2} << 20, (size_t{3} << 20) + 1}) {
    { const auto warm_up = Mapping::anonymous(bytes); }
    const int64_t before = size_pages();
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(Mapping::anonymous(bytes));
    EXPECT_EQ(size_pages(), before) << bytes;
  }
}

}  // namespace
}  // namespace suture
