#include "models/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "models/test_gguf_builder.h"

namespace suture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array<float, 6> kValues = {1, 2, 3, 4, 5, 6};
constexpr std::array<std::byte, 36> kTwoQ4Blocks = {};

GgufBuilder small_file() {
  GgufBuilder builder;
  builder.text("general.architecture", "llama")
      .u32("llama.block_count", 3)
      .f32("llama.eps", 0.25f)
      .flag("tokenizer.add", true)
      .strings("tokenizer.tokens", {"a", "", "ccc"})
      .int32s("tokenizer.types", {1, -2, 3})
      .tensor("norm", {6}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)))
      .tensor("matrix", {3, 2}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)))
      .tensor("quantised", {32, 2}, GgufBuilder::kQ4_0, kTwoQ4Blocks);
  return builder;
}

Result<GgufFile> parse(std::span<const std::byte> bytes) {
  return GgufFile::parse(bytes, "test.gguf");
}

// What a file made by `builder` is refused with; empty if it is accepted.
std::string refusal(const GgufBuilder& builder) {
  const auto bytes = builder.build();
  const auto file = parse(bytes);
  return file ? "" : file.error().what;
}

TEST(GgufTest, ReadsTypedMetadata) {
  const auto bytes = small_file().build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->entries().size(), 6u);
  EXPECT_EQ(file->find("general.architecture")->as_string(), "llama");
  EXPECT_EQ(file->find("llama.block_count")->as_unsigned(), 3u);
  EXPECT_EQ(file->find("llama.eps")->as_float(), 0.25);
  EXPECT_EQ(file->find("tokenizer.add")->as_bool(), true);
  EXPECT_THAT(*file->find("tokenizer.tokens")->as_strings(), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*file->find("tokenizer.types")->as_int32s(), ElementsAre(1, -2, 3));
  EXPECT_EQ(file->find("llama.head_count"), nullptr);
}

TEST(GgufTest, ValuesOfAnotherKindGiveNothing) {
  const auto bytes = small_file().build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->find("general.architecture")->as_unsigned());
  EXPECT_FALSE(file->find("llama.block_count")->as_string());
  EXPECT_FALSE(file->find("tokenizer.tokens")->as_int32s());
  EXPECT_FALSE(file->find("tokenizer.types")->as_strings());
}

TEST(GgufTest, PrintsValuesForPeople) {
  const auto bytes = small_file().build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("general.architecture")->text(), "'llama'");
  EXPECT_EQ(file->find("llama.eps")->text(), "0.25");
  EXPECT_EQ(file->find("tokenizer.tokens")->text(), "3 strings: 'a', '', 'ccc'");
  EXPECT_EQ(file->find("tokenizer.types")->text(), "3 numbers: 1, -2, 3");
}

TEST(GgufTest, TurnsDimensionsRoundAndPointsIntoTheFile) {
  const auto bytes = small_file().build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file);
  const TensorInfo& matrix = file->tensors()[1];
  EXPECT_EQ(matrix.name, "matrix");
  EXPECT_THAT(matrix.shape, ElementsAre(2, 3));
  ASSERT_EQ(matrix.data.size(), sizeof(kValues));
  EXPECT_TRUE(std::ranges::equal(matrix.data, std::as_bytes(std::span(kValues))));
  EXPECT_EQ(file->tensors()[2].dtype, DType::kQ4_0);
  EXPECT_EQ(file->tensors()[2].data.size(), kTwoQ4Blocks.size());
}

TEST(GgufTest, RefusesEveryTruncation) {
  const auto bytes = small_file().build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<long>(size));
    const auto file = parse(part);
    ASSERT_FALSE(file) << "accepted the first " << size << " of " << bytes.size() << " bytes";
    ASSERT_EQ(file.error().code, ErrorCode::kCorrupt);
  }
}

// Whatever a damaged file says, what is accepted lies inside it.
TEST(GgufTest, SurvivesEveryDamagedByte) {
  const auto bytes = small_file().build();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto damaged = bytes;
      damaged[at] = static_cast<std::byte>(value);
      const auto file = parse(damaged);
      if (!file) continue;
      for (const GgufEntry& entry : file->entries()) ASSERT_FALSE(entry.value.text().empty());
      for (const TensorInfo& tensor : file->tensors()) {
        if (tensor.data.empty()) continue;
        ASSERT_GE(tensor.data.data(), damaged.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), damaged.data() + damaged.size());
      }
    }
  }
}

TEST(GgufTest, RefusesCountsThatDoNotFitTheFile) {
  GgufBuilder tensors = small_file();
  tensors.extra_tensors = 1;
  EXPECT_NE(refusal(tensors), "");
  tensors.extra_tensors = std::numeric_limits<uint64_t>::max() / 2;
  EXPECT_THAT(refusal(tensors), HasSubstr("tensors do not fit the file"));
  GgufBuilder entries = small_file();
  entries.extra_entries = std::numeric_limits<uint64_t>::max() / 2;
  EXPECT_THAT(refusal(entries), HasSubstr("metadata entries do not fit the file"));
}

TEST(GgufTest, RefusesOtherVersionsAndByteOrders) {
  GgufBuilder builder = small_file();
  builder.version = 2;
  EXPECT_THAT(refusal(builder), HasSubstr("GGUF version 2 is not supported"));
  builder.version = 1;
  EXPECT_THAT(refusal(builder), HasSubstr("GGUF version 1 is not supported"));
  builder.version = 0x03000000;
  EXPECT_THAT(refusal(builder), HasSubstr("big-endian"));
  builder.version = 3;
  builder.magic = "GGML";
  EXPECT_THAT(refusal(builder), HasSubstr("does not begin with 'GGUF'"));
}

TEST(GgufTest, RefusesNamesThatAppearTwice) {
  GgufBuilder keys = small_file();
  keys.u32("llama.block_count", 3);
  EXPECT_THAT(refusal(keys), HasSubstr("'llama.block_count' appears twice"));
  GgufBuilder tensors = small_file();
  tensors.tensor("norm", {6}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)));
  EXPECT_THAT(refusal(tensors), HasSubstr("'norm' appears twice"));
}

TEST(GgufTest, RefusesShapesThatCannotBe) {
  const auto data = std::as_bytes(std::span(kValues));
  const auto with = [&](std::vector<uint64_t> dims, uint32_t type) {
    return refusal(GgufBuilder().tensor("t", std::move(dims), type, data));
  };
  EXPECT_THAT(with({0}, GgufBuilder::kF32), HasSubstr("dimension of 0"));
  EXPECT_THAT(with({}, GgufBuilder::kF32), HasSubstr("0 dimensions"));
  EXPECT_THAT(with({1, 1, 1, 1, 1}, GgufBuilder::kF32), HasSubstr("5 dimensions"));
  EXPECT_THAT(with({uint64_t{1} << 39, uint64_t{1} << 39}, GgufBuilder::kF32),
              HasSubstr("too many"));
  EXPECT_THAT(with({31, 2}, GgufBuilder::kQ4_0), HasSubstr("not whole blocks of q4_0"));
  EXPECT_THAT(with({7}, GgufBuilder::kF32), HasSubstr("does not fit the file"));
}

TEST(GgufTest, ChecksTheAlignment) {
  GgufBuilder wide;
  wide.alignment = 64;
  wide.u32("general.alignment", 64)
      .tensor("t", {6}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)));
  EXPECT_EQ(refusal(wide), "");
  for (const uint32_t alignment : {0u, 1u, 48u, 1u << 30}) {
    GgufBuilder bad;
    bad.u32("general.alignment", alignment);
    EXPECT_THAT(refusal(bad), HasSubstr("general.alignment")) << alignment;
  }
}

TEST(GgufTest, RefusesTensorsThatOverlap) {
  GgufBuilder builder;
  builder.alignment = 8;
  builder.u32("general.alignment", 8)
      .tensor("a", {4}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)).first(8))
      .tensor("b", {4}, GgufBuilder::kF32, std::as_bytes(std::span(kValues)).first(16));
  EXPECT_THAT(refusal(builder), HasSubstr("'a' and 'b' overlap"));
}

// The ids are ggml's.
TEST(GgufTest, ReadsEveryWeightType) {
  constexpr std::pair<uint32_t, std::string_view> kTypes[] = {
      {0, "f32"},   {1, "f16"},   {30, "bf16"}, {2, "q4_0"},   {3, "q4_1"},
      {6, "q5_0"},  {7, "q5_1"},  {8, "q8_0"},  {10, "q2_k"},  {11, "q3_k"},
      {12, "q4_k"}, {13, "q5_k"}, {14, "q6_k"}, {20, "iq4_nl"}};
  const std::vector<std::byte> data(1024);
  for (const auto& [id, name] : kTypes) {
    const auto bytes = GgufBuilder().tensor("t", {256}, id, data).build();
    const auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->tensors()[0].type_name(), name);
    EXPECT_EQ(file->tensors()[0].data.size(), dtype_bytes(file->tensors()[0].dtype, 256));
  }
  std::string names;
  for (const auto& [id, name] : kTypes) names += (names.empty() ? "" : ", ") + std::string(name);
  EXPECT_EQ(names, known_weight_types());
}

TEST(GgufTest, NamesTypesItCannotRead) {
  const auto bytes = GgufBuilder()
                         .tensor("t", {32}, GgufBuilder::kQ8_1, std::as_bytes(std::span(kValues)))
                         .build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tensors()[0].type_name(), "q8_1");
  EXPECT_TRUE(file->tensors()[0].data.empty());
}

}  // namespace
}  // namespace suture
