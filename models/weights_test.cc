#include "models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "models/test_models.h"

namespace suture {
namespace {

using ::testing::HasSubstr;

// Tensors in memory, as a file would hold them.
class MemoryCheckpoint final : public Checkpoint {
 public:
  ModelConfig model;
  std::map<std::string, TensorInfo, std::less<>> table;

  const std::filesystem::path& path() const override { return path_; }
  const std::vector<std::filesystem::path>& files() const override { return files_; }
  const ModelConfig& config() const override { return model; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : &found->second;
  }
  std::vector<const TensorInfo*> tensors() const override {
    std::vector<const TensorInfo*> all;
    for (const auto& [name, tensor] : table) all.push_back(&tensor);
    return all;
  }
  Result<Vocabulary> vocabulary() const override { return Vocabulary{}; }
  std::vector<std::pair<std::string, std::string>> metadata() const override { return {}; }
  uint64_t file_bytes() const override { return 0; }

 private:
  std::filesystem::path path_ = "memory";
  std::vector<std::filesystem::path> files_;
};

class WeightsTest : public ::testing::Test {
 protected:
  WeightsTest() {
    auto source = Checkpoint::open(file_.path()).value();
    checkpoint_.model = source->config();
    for (const TensorInfo* tensor : source->tensors()) checkpoint_.table[tensor->name] = *tensor;
    source_ = std::move(source);
  }

  std::string refusal() {
    const auto weights = load_weights(checkpoint_, *device_);
    return weights ? "" : weights.error().what;
  }

  TemporaryFile file_{one_layer_llama().build()};
  std::unique_ptr<Checkpoint> source_;
  MemoryCheckpoint checkpoint_;
  std::unique_ptr<Device> device_ = open_device("cpu", 1).value();
};

TEST_F(WeightsTest, MatricesAreReadWhereTheyLieAndNormsAreCopied) {
  const auto weights = load_weights(checkpoint_, *device_);
  ASSERT_TRUE(weights) << weights.error().message();
  EXPECT_EQ(weights->owned.size(), 3u);
  EXPECT_EQ(std::memcmp(weights->output_norm, checkpoint_.find("output_norm.weight")->data.data(),
                        checkpoint_.find("output_norm.weight")->data.size()),
            0);
  ASSERT_EQ(weights->layers.size(), 1u);
  EXPECT_EQ(weights->layers[0].down.data, checkpoint_.find("blk.0.ffn_down.weight")->data.data());
  EXPECT_EQ(weights->layers[0].down.rows, 8);
  EXPECT_EQ(weights->layers[0].down.cols, 12);
  EXPECT_EQ(weights->layers[0].q_bias, nullptr);
  EXPECT_EQ(weights->output.data, weights->embedding.data);  // tied
}

TEST_F(WeightsTest, MisplacedBytesAreCopiedToAnAddressThatKernelsCanUse) {
  for (const char* name : {"output_norm.weight", "blk.0.ffn_down.weight"}) {
    TensorInfo& tensor = checkpoint_.table[name];
    std::vector<std::byte> shifted(tensor.data.size() + 1);
    std::memcpy(shifted.data() + 1, tensor.data.data(), tensor.data.size());
    float first = 0;
    std::memcpy(&first, tensor.data.data(), sizeof(first));
    const auto there = std::exchange(tensor.data, std::span(shifted).subspan(1));
    const auto weights = load_weights(checkpoint_, *device_);
    tensor.data = there;
    ASSERT_TRUE(weights);
    const bool is_norm = tensor.shape.size() == 1;
    EXPECT_EQ(weights->owned.size(), is_norm ? 3u : 4u);
    const void* placed = is_norm ? static_cast<const void*>(weights->output_norm)
                                 : static_cast<const void*>(weights->layers[0].down.data);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(placed) % alignof(float), 0u);
    EXPECT_EQ(*static_cast<const float*>(placed), first);
  }
}

TEST_F(WeightsTest, NormsOfHalfPrecisionBecomeFloat32) {
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x3800, 0, 0x3c00, 0, 0, 0};
  TensorInfo& norm = checkpoint_.table["output_norm.weight"];
  norm.dtype = DType::kF16;
  norm.data = std::as_bytes(std::span(halves));
  const auto weights = load_weights(checkpoint_, *device_);
  ASSERT_TRUE(weights) << weights.error().message();
  EXPECT_EQ(weights->output_norm[0], 1.0f);
  EXPECT_EQ(weights->output_norm[1], -2.0f);
  EXPECT_EQ(weights->output_norm[2], 0.5f);
}

TEST_F(WeightsTest, EveryTensorIsNeeded) {
  for (const auto& [name, dims] : one_layer_tensors()) {
    const auto node = checkpoint_.table.extract(std::string(name));
    EXPECT_EQ(refusal(), "tensor '" + std::string(name) + "' is missing");
    checkpoint_.table[std::string(name)] = node.mapped();
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(WeightsTest, BiasesAreNeededWhereTheFamilyHasThem) {
  checkpoint_.model.qkv_bias = true;
  EXPECT_EQ(refusal(), "tensor 'blk.0.attn_q.bias' is missing");
}

TEST_F(WeightsTest, RefusesShapesThatContradictTheConfiguration) {
  checkpoint_.model.ffn_size = 16;
  EXPECT_EQ(refusal(),
            "tensor 'blk.0.ffn_gate.weight' is [12, 8], expected [16, 8] from the "
            "configuration");
}

TEST_F(WeightsTest, RefusesTensorsWithoutAPlace) {
  checkpoint_.table["blk.0.attn_q_norm.weight"] = checkpoint_.table["blk.0.attn_norm.weight"];
  checkpoint_.table["blk.0.attn_q_norm.weight"].name = "blk.0.attn_q_norm.weight";
  EXPECT_EQ(refusal(),
            "tensor 'blk.0.attn_q_norm.weight' [8] has no place in architecture 'llama'");
}

TEST_F(WeightsTest, RefusesTypesByName) {
  TensorInfo& tensor = checkpoint_.table["blk.0.attn_v.weight"];
  tensor.unsupported_type = "iq2_xs";
  tensor.data = {};
  EXPECT_THAT(refusal(), HasSubstr("'blk.0.attn_v.weight' has type iq2_xs"));
  tensor.unsupported_type.clear();
  tensor.dtype = DType::kI64;
  EXPECT_THAT(refusal(), HasSubstr("has type i64"));
}

TEST_F(WeightsTest, RefusesModelsThatCannotRun) {
  checkpoint_.model.unsupported = "architecture 'gemma3' is not supported yet";
  const auto weights = load_weights(checkpoint_, *device_);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(weights.error().what, "architecture 'gemma3' is not supported yet");
}

}  // namespace
}  // namespace suture
