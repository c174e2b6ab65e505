#include "base/new_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/test_folder.h"

namespace suture {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

int64_t files_in(const TestFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(NewFile, TakesThePlaceOfTheOldOneWhenItIsFinished) {
  const TestFolder folder;
  const auto path = folder.write("numbers", "old");
  {
    auto file = NewFile::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(bytes_of("new ")));
    ASSERT_TRUE(file->write(bytes_of("numbers")));
    EXPECT_EQ(content_of(path), "old");
    ASSERT_TRUE(file->finish());
  }
  EXPECT_EQ(content_of(path), "new numbers");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(NewFile, LeavesNothingBehindThatIsNotFinished) {
  const TestFolder folder;
  const auto path = folder.write("numbers", "old");
  {
    auto file = NewFile::create(path);
    ASSERT_TRUE(file && file->write(bytes_of("new")));
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(NewFile, SaysWhereItCannotBe) {
  const TestFolder folder;
  const auto file = NewFile::create(folder.path() / "none" / "numbers");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_NE(file.error().where.find("none/numbers"), std::string::npos);
}

}  // namespace
}  // namespace suture
