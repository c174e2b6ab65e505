#include "models/safetensors_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_folder.h"
#include "models/checkpoint.h"
#include "models/safetensors.h"
#include "models/test_models.h"

namespace suture {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// The tensors of the tiny llama in two shards, every other one in the second.
class SafetensorsShardsTest : public ::testing::Test {
 protected:
  SafetensorsShardsTest() {
    const auto whole = open_safetensors_shards(tiny_folder("llama")).value();
    for (size_t i = 0; i < whole.tensors.size(); ++i)
      index_["weight_map"][whole.tensors[i].name] = i % 2 == 0 ? kFirst : kSecond;
    for (const char* name : {kFirst, kSecond}) {
      std::vector<TensorInfo> tensors;
      for (const TensorInfo& tensor : whole.tensors) {
        if (index_["weight_map"][tensor.name] == name) tensors.push_back(tensor);
      }
      EXPECT_TRUE(write_safetensors(folder_.path() / name, tensors));
    }
    std::filesystem::copy_file(tiny_folder("llama") / "config.json",
                               folder_.path() / "config.json");
  }

  Error refusal() const { return refusal_of(index_.dump()); }
  Error refusal_of(std::string_view index) const {
    folder_.write(kIndexName, index);
    const auto shards = open_safetensors_shards(folder_.path());
    EXPECT_FALSE(shards);
    return shards ? Error() : shards.error();
  }

  TestFolder folder_;
  json index_;
};

TEST_F(SafetensorsShardsTest, ShardsAreTheModelInOnePiece) {
  folder_.write(kIndexName, index_.dump());
  const auto model = Checkpoint::open(folder_.path());
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_THAT((*model)->files(), ElementsAre(folder_.path() / kFirst, folder_.path() / kSecond));
  EXPECT_EQ((*model)->file_bytes(), std::filesystem::file_size(folder_.path() / kFirst) +
                                        std::filesystem::file_size(folder_.path() / kSecond));
  const auto whole = Checkpoint::open(tiny_folder("llama")).value();
  for (const TensorInfo* tensor : whole->tensors()) {
    const TensorInfo* found = (*model)->find(tensor->name);
    ASSERT_NE(found, nullptr) << tensor->name;
    EXPECT_TRUE(std::ranges::equal(found->data, tensor->data)) << tensor->name;
  }
  EXPECT_EQ((*model)->tensors().size(), whole->tensors().size());
  EXPECT_TRUE(LanguageModel::load(folder_.path(), LoadOptions{}));
}

TEST_F(SafetensorsShardsTest, AFolderNeedsOneOfTheTwo) {
  const auto shards = open_safetensors_shards(folder_.path());
  ASSERT_FALSE(shards);
  EXPECT_EQ(shards.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(shards.error().what,
            "the folder has no model.safetensors and no model.safetensors.index.json");
}

TEST_F(SafetensorsShardsTest, NamesTheShardThatIsMissing) {
  std::filesystem::remove(folder_.path() / kSecond);
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.where, (folder_.path() / kSecond).string());
  EXPECT_THAT(error.what, HasSubstr("this file is missing"));
}

TEST_F(SafetensorsShardsTest, NamesTensorsThatAreNotWhereTheIndexSays) {
  index_["weight_map"]["extra.weight"] = kSecond;
  EXPECT_EQ(refusal().what,
            "tensor 'extra.weight' is not in this file, though model.safetensors.index.json has it "
            "here");
  EXPECT_EQ(refusal().where, (folder_.path() / kSecond).string());
  index_["weight_map"].erase("extra.weight");
  index_["weight_map"].erase("model.norm.weight");
  EXPECT_THAT(refusal().what, HasSubstr("tensor 'model.norm.weight' is in this file, but"));
}

TEST_F(SafetensorsShardsTest, RefusesATensorInTwoShards) {
  std::filesystem::copy_file(folder_.path() / kFirst, folder_.path() / kSecond,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(refusal().what, HasSubstr("but model.safetensors.index.json does not have it here"));
  EXPECT_EQ(refusal().where, (folder_.path() / kSecond).string());
}

TEST_F(SafetensorsShardsTest, OpensNothingOutsideTheFolder) {
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..",
                           ".safetensors", "", "model.bin", "a\nb.safetensors"}) {
    index_["weight_map"]["model.norm.weight"] = name;
    EXPECT_THAT(refusal().what, HasSubstr("for tensor 'model.norm.weight', expected the name of"))
        << name;
  }
  index_["weight_map"]["model.norm.weight"] = 3;
  EXPECT_THAT(refusal().what, HasSubstr("'weight_map' gives 3 for tensor"));
}

TEST_F(SafetensorsShardsTest, RefusesAMalformedIndex) {
  EXPECT_THAT(refusal_of("{}").what, HasSubstr("'weight_map' is missing"));
  EXPECT_THAT(refusal_of(R"({"weight_map": []})").what, HasSubstr("'weight_map' is []"));
  EXPECT_THAT(refusal_of(R"({"weight_map": {}})").what, HasSubstr("'weight_map' is {}"));
  EXPECT_THAT(refusal_of(R"({"weight_map": {"a": "x", "a": "y"}})").what, HasSubstr("twice"));
  EXPECT_THAT(refusal_of("[1]").what, HasSubstr("expected a JSON object"));
}

}  // namespace
}  // namespace suture
