#include "models/gguf_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "models/checkpoint.h"
#include "models/test_models.h"

namespace suture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string part_name(int number, int count = 3) {
  return fmt::format("tiny-{:05}-of-{:05}.gguf", number, count);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The tensors of the one-layer llama over three files, as llama.cpp's gguf-split writes them.
class GgufPartsTest : public ::testing::Test {
 protected:
  struct Keys {
    uint16_t number, count;
    uint16_t tensors;
  };

  GgufPartsTest() {
    const auto tensors = one_layer_tensors();
    keys_ = {{0, 3, static_cast<uint16_t>(tensors.size())}, {1, 3, 0}, {2, 3, 0}};
    builders_ = {one_layer_metadata(), GgufBuilder(), GgufBuilder()};
    for (size_t i = 0; i < tensors.size(); ++i) add(builders_[i * 3 / tensors.size()], tensors[i]);
  }

  static void add(GgufBuilder& builder, const TensorShape& tensor) {
    const std::vector<float> values(tensor.dims[0] * (tensor.dims.size() > 1 ? tensor.dims[1] : 1),
                                    static_cast<float>(tensor.name.size()));
    builder.tensor(tensor.name, tensor.dims, GgufBuilder::kF32, std::as_bytes(std::span(values)));
  }

  void write(size_t part) {
    GgufBuilder builder = builders_[part];
    builder.u16("split.no", keys_[part].number)
        .u16("split.count", keys_[part].count)
        .u32("split.tensors.count", keys_[part].tensors);
    folder_.write(part_name(static_cast<int>(part) + 1), text_of(builder.build()));
  }

  std::filesystem::path path(int number) const { return folder_.path() / part_name(number); }

  // The error of opening the second part.
  Error refusal() {
    for (size_t part = 0; part < 3; ++part) write(part);
    return error_of(2);
  }
  Error error_of(int number) const {
    const auto parts = open_gguf_parts(path(number));
    EXPECT_FALSE(parts);
    return parts ? Error() : parts.error();
  }

  TestFolder folder_;
  std::vector<GgufBuilder> builders_;
  std::vector<Keys> keys_;
};

TEST_F(GgufPartsTest, AnyPartOpensTheWholeModel) {
  for (size_t part = 0; part < 3; ++part) write(part);
  GgufBuilder whole = one_layer_metadata();
  for (const auto& tensor : one_layer_tensors()) add(whole, tensor);
  const TemporaryFile single(whole.build());
  const auto expected = Checkpoint::open(single.path()).value();
  uint64_t bytes = 0;
  for (int number : {1, 2, 3}) bytes += std::filesystem::file_size(path(number));
  for (int number : {1, 2, 3}) {
    const auto model = Checkpoint::open(path(number));
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->fingerprint(), expected->fingerprint());
    EXPECT_EQ((*model)->path(), path(number));
    EXPECT_THAT((*model)->files(), ElementsAre(path(1), path(2), path(3)));
    EXPECT_EQ((*model)->file_bytes(), bytes);
  }
  EXPECT_TRUE(LanguageModel::load(path(1), LoadOptions{}));
}

TEST_F(GgufPartsTest, AModelInOnePartNeedsNoOther) {
  GgufBuilder builder = one_layer_llama();
  const TemporaryFile file(builder.u16("split.no", 0).u16("split.count", 1).build());
  const auto parts = open_gguf_parts(file.path());
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_THAT(parts->paths, ElementsAre(file.path()));
}

TEST_F(GgufPartsTest, NamesThePartThatIsMissing) {
  write(0);
  write(1);
  const Error error = error_of(1);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.what, "part 3 of 3 of this model is missing");
  EXPECT_EQ(error.where, path(3).string());
}

TEST_F(GgufPartsTest, RefusesPartsThatDoNotBelongTogether) {
  keys_[2].count = 4;
  EXPECT_EQ(refusal().what, "split.count is 4, expected 3");
  EXPECT_EQ(refusal().where, path(3).string());
  keys_[2].count = 3;
  keys_[0].number = 1;
  EXPECT_EQ(refusal().what, "split.no is 1, expected 0");
  EXPECT_EQ(refusal().where, path(1).string());
  keys_[0].number = 0;
  keys_[0].tensors += 1;
  EXPECT_EQ(refusal().what, "split.tensors.count is 12, but the 3 parts hold 11 tensors");
}

TEST_F(GgufPartsTest, RefusesATensorInTwoParts) {
  add(builders_[2], one_layer_tensors()[0]);
  EXPECT_EQ(refusal().what, "tensor 'token_embd.weight' is also in an earlier part");
  EXPECT_EQ(refusal().where, path(3).string());
}

TEST_F(GgufPartsTest, RefusesNamesThatDoNotNameTheOthers) {
  for (size_t part = 0; part < 3; ++part) write(part);
  for (const char* name : {"tiny.gguf", "tiny-00000-of-00003.gguf", "tiny-00004-of-00003.gguf",
                           "tiny-1-of-3.gguf", "tiny-+0001-of-00003.gguf"}) {
    std::filesystem::copy_file(path(1), folder_.path() / name);
    const auto parts = open_gguf_parts(folder_.path() / name);
    ASSERT_FALSE(parts) << name;
    EXPECT_THAT(parts.error().what, HasSubstr("end in -00001-of-00003.gguf")) << name;
  }
  std::filesystem::rename(path(1), folder_.path() / part_name(1, 2));
  EXPECT_EQ(open_gguf_parts(folder_.path() / part_name(1, 2)).error().what,
            "split.count is 3, expected 2");
}

}  // namespace
}  // namespace suture
