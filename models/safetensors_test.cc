#include "models/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/mapping.h"

namespace suture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> file_of(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::vector<std::byte> bytes(sizeof(length) + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, sizeof(length));
  std::memcpy(bytes.data() + sizeof(length), header.data(), header.size());
  return bytes;
}

std::string refusal(std::string_view header, size_t data_bytes) {
  const auto bytes = file_of(header, data_bytes);
  const auto file = SafetensorsFile::parse(bytes, "test.safetensors");
  return file ? "" : file.error().what;
}

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"seed":"7"},)"
    R"("b":{"dtype":"I64","shape":[2],"data_offsets":[12,28]},)"
    R"("a":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}})";

TEST(SafetensorsTest, ReadsTensorsInFileOrder) {
  const auto bytes = file_of(kTwoTensors, 28);
  const auto file = SafetensorsFile::parse(bytes, "test.safetensors");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_THAT(file->tensors()[0].shape, ElementsAre(1, 3));
  EXPECT_EQ(file->find("b")->dtype, DType::kI64);
  EXPECT_EQ(file->find("b")->data.data(), bytes.data() + bytes.size() - 16);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(file->metadata().at("seed"), "7");
}

TEST(SafetensorsTest, RefusesEveryTruncation) {
  const auto bytes = file_of(kTwoTensors, 28);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<long>(size));
    ASSERT_FALSE(SafetensorsFile::parse(part, "part")) << "accepted the first " << size << " bytes";
  }
}

TEST(SafetensorsTest, SurvivesEveryDamagedByte) {
  const auto bytes = file_of(kTwoTensors, 28);
  for (size_t at = 0; at < bytes.size() - 28; ++at) {
    for (const char value : {'\0', '"', '9', '{', '\xff'}) {
      auto damaged = bytes;
      damaged[at] = static_cast<std::byte>(value);
      const auto file = SafetensorsFile::parse(damaged, "damaged");
      if (!file) continue;
      for (const TensorInfo& tensor : file->tensors()) {
        if (tensor.data.empty()) continue;
        ASSERT_GE(tensor.data.data(), damaged.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), damaged.data() + damaged.size());
      }
    }
  }
}

TEST(SafetensorsTest, RefusesRangesThatContradictTheFile) {
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
              HasSubstr("not inside the 4 bytes"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
              HasSubstr("not inside"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("takes 12 bytes, but 8 are given"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,0]}})",
                      0),
              HasSubstr("too many elements"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      12),
              HasSubstr("'a' and 'b' overlap"));
}

TEST(SafetensorsTest, RefusesMalformedHeaders) {
  EXPECT_THAT(refusal(R"([1,2])", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"t":)", 0), HasSubstr("malformed JSON at byte"));
  EXPECT_THAT(refusal(R"({"t":3})", 0), HasSubstr("not an object"));
  EXPECT_THAT(refusal(R"({"t":{"shape":[],"data_offsets":[0,0]}})", 0), HasSubstr("no dtype"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0),
              HasSubstr("shape is not a list of sizes"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 0),
              HasSubstr("not two offsets"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      4),
              HasSubstr("'t' appears twice"));
  EXPECT_THAT(refusal(R"({"a\u001b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("'a\\x1b': the name is not"));
  EXPECT_THAT(
      refusal(R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
      HasSubstr("9 dimensions, expected at most 8"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"F8","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,0]}})",
                      0),
              HasSubstr("too many elements"));
  std::vector<std::byte> huge(16, std::byte{0xff});
  EXPECT_FALSE(SafetensorsFile::parse(huge, "huge"));
}

TEST(SafetensorsTest, NamesTypesItCannotRead) {
  const auto bytes = file_of(R"({"t":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2);
  const auto file = SafetensorsFile::parse(bytes, "test");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->tensors()[0].type_name(), "F8_E4M3");
}

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(SafetensorsWriterTest, WhatIsWrittenReadsBack) {
  const std::array<float, 6> floats = {1, -2, 3, 0.5f, 1e30f, -0.0f};
  const std::array<int64_t, 2> integers = {5, std::numeric_limits<int64_t>::min()};
  const std::array<TensorInfo, 2> tensors = {
      TensorInfo{"logits", DType::kF32, {2, 3}, std::as_bytes(std::span(floats)), {}},
      TensorInfo{"ids", DType::kI64, {2}, std::as_bytes(std::span(integers)), {}}};
  const auto path = folder_ / "out.safetensors";
  ASSERT_TRUE(write_safetensors(path, tensors));
  const auto mapping = Mapping::file(path);
  ASSERT_TRUE(mapping);
  const auto file = SafetensorsFile::parse(mapping->bytes(), path.string());
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& read = file->tensors()[i];
    EXPECT_EQ(read.name, tensors[i].name);
    EXPECT_EQ(read.dtype, tensors[i].dtype);
    EXPECT_EQ(read.shape, tensors[i].shape);
    EXPECT_TRUE(std::ranges::equal(read.data, tensors[i].data));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read.data.data()) % 8, 0u);
  }
}

TEST_F(SafetensorsWriterTest, LeavesNothingBehindWhenItFails) {
  const auto path = folder_ / "taken";
  std::filesystem::create_directories(path / "child");  // a folder cannot be replaced by a file
  const auto status = write_safetensors(path, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(SafetensorsWriterTest, RefusesDataThatDoesNotFitItsShape) {
  const std::array<float, 2> floats = {1, 2};
  const std::array<TensorInfo, 1> tensors = {
      TensorInfo{"t", DType::kF32, {3}, std::as_bytes(std::span(floats)), {}}};
  const auto status = write_safetensors(folder_ / "out.safetensors", tensors);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace suture
