#include "models/model_memory.h"

#include <gtest/gtest.h>

#include "models/forward.h"
#include "models/test_models.h"

namespace suture {
namespace {

// A CPU device that counts what it really gives out.
class MeteredDevice final : public Device {
 public:
  MeteredDevice() : cpu_(open_device("cpu", 1).value()) {}
  uint64_t bytes = 0;

  DeviceKind kind() const override { return cpu_->kind(); }
  std::string name() const override { return cpu_->name(); }
  Result<std::unique_ptr<Buffer>> allocate(size_t size) override {
    bytes += size;
    return cpu_->allocate(size);
  }
  const std::byte* device_address(std::span<const std::byte> host) override {
    return cpu_->device_address(host);
  }
  Result<std::unique_ptr<Stream>> make_stream() override { return cpu_->make_stream(); }
  Result<std::unique_ptr<Event>> make_event() override { return cpu_->make_event(); }

 private:
  std::unique_ptr<Device> cpu_;
};

class ModelMemoryTest : public testing::TestWithParam<const char*> {};

TEST_P(ModelMemoryTest, StatesWhatLoadingAllocates) {
  const auto checkpoint = Checkpoint::open(tiny_folder(GetParam()));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto stated = model_memory(**checkpoint);
  ASSERT_TRUE(stated.has_value()) << stated.error().message();

  MeteredDevice device;
  const auto stream = device.make_stream();
  const auto weights = load_weights(**checkpoint, device);
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  EXPECT_EQ(stated->converted_bytes, device.bytes);
  device.bytes = 0;
  ASSERT_TRUE(Forward::create((*checkpoint)->config(), *weights, device, **stream).has_value());
  EXPECT_EQ(stated->activation_bytes + stated->logits_bytes, device.bytes);
  // Norms, which are copied, and an embedding that is not the output matrix as well.
  uint64_t elsewhere = 0;
  for (const TensorInfo* tensor : (*checkpoint)->tensors())
    if (tensor->shape.size() == 1) elsewhere += tensor->data.size();
  if (weights->output.data != weights->embedding.data)
    elsewhere += (*checkpoint)->find("token_embd.weight")->data.size();
  EXPECT_EQ(stated->mapped_bytes, (*checkpoint)->file_bytes() - elsewhere);
  EXPECT_EQ(stated->packed_bytes, 0u);  // plain weights
}

// The residual stream, the MLP and the logits are there whatever else is.
TEST_P(ModelMemoryTest, CoversTheLargestBuffers) {
  const auto checkpoint = Checkpoint::open(tiny_folder(GetParam()));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto stated = model_memory(**checkpoint);
  ASSERT_TRUE(stated.has_value()) << stated.error().message();
  const ModelConfig& config = (*checkpoint)->config();
  const auto row = static_cast<uint64_t>(config.hidden_size) + 2ull * config.ffn_size;
  EXPECT_GE(stated->activation_bytes, 512 * row * sizeof(float));
  EXPECT_GE(stated->logits_bytes, static_cast<uint64_t>(config.vocab_size) * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(Tiny, ModelMemoryTest, testing::Values("llama", "qwen2"));

}  // namespace
}  // namespace suture
