#include "fusion/norm_override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

using ::testing::HasSubstr;

NormWeights norms_of(const std::vector<float>& layers) {
  NormWeights norms;
  for (const float value : layers) norms.layers.push_back({{value, 2 * value}, {3 * value, 1}});
  norms.output = {7, 8};
  return norms;
}

TEST(NormOverrideTest, LayersInBetweenTakeBothInProportion) {
  const NormWeights source = norms_of({10, 20, 40});
  EXPECT_EQ(interpolate_norms(source, 3), source);
  const NormWeights five = interpolate_norms(source, 5);
  ASSERT_EQ(five.layers.size(), 5u);
  const float expected[] = {10, 15, 20, 30, 40};
  for (size_t l = 0; l < 5; ++l) {
    EXPECT_FLOAT_EQ(five.layers[l].attention[0], expected[l]) << l;
    EXPECT_FLOAT_EQ(five.layers[l].attention[1], 2 * expected[l]) << l;
    EXPECT_FLOAT_EQ(five.layers[l].ffn[0], 3 * expected[l]) << l;
    EXPECT_FLOAT_EQ(five.layers[l].ffn[1], 1) << l;
  }
  EXPECT_EQ(five.output, source.output);
  EXPECT_FLOAT_EQ(interpolate_norms(source, 2).layers[1].attention[0], 40);
  EXPECT_FLOAT_EQ(interpolate_norms(source, 1).layers[0].attention[0], 40);
  // Layer 1 of 4 lies at 2/3 of the way from layer 0 to layer 1 of 3.
  EXPECT_FLOAT_EQ(interpolate_norms(source, 4).layers[1].attention[0], 10 + 10 * 2.0f / 3);
  EXPECT_FLOAT_EQ(interpolate_norms(norms_of({5}), 3).layers[1].attention[0], 5);
}

TEST(NormOverrideTest, LargestDifferenceIsNamed) {
  const NormWeights a = norms_of({10, 20});
  NormWeights b = a;
  EXPECT_EQ(compare_norms(a, b).largest, 0);
  EXPECT_EQ(compare_norms(a, b).where, "");
  b.layers[0].attention[1] += 0.25f;
  b.layers[1].ffn[0] -= 0.5f;
  EXPECT_FLOAT_EQ(compare_norms(a, b).largest, 0.5f);
  EXPECT_EQ(compare_norms(a, b).where, "layer 1, MLP");
  b.output[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare_norms(a, b).where, "output");
}

TEST(NormOverrideTest, LoadedNormsAreThoseOfTheMaster) {
  const Vocabulary vocabulary = make_byte_vocabulary({});
  const TemporaryFile master_file(
      text_model({.vocabulary = vocabulary, .n_layers = 3, .norm_scale = 2}));
  const TemporaryFile slave_file(text_model({.vocabulary = vocabulary, .n_layers = 2, .seed = 5}));
  const auto master = Checkpoint::open(master_file.path()).value();
  const auto slave = Checkpoint::open(slave_file.path()).value();
  const NormWeights norms = norms_from_master(*master, slave->config()).value();
  EXPECT_EQ(norms.layers[1], read_norm_weights(*master)->layers[2]);

  const auto device = open_device("cpu", 1).value();
  const auto stream = device->make_stream().value();
  const Weights overridden = load_weights(*slave, *device, &norms).value();
  EXPECT_TRUE(verify_norms(overridden, *stream, slave->config(), *master));
  const Weights own = load_weights(*slave, *device).value();
  const Status differs = verify_norms(own, *stream, slave->config(), *master);
  ASSERT_FALSE(differs);
  EXPECT_THAT(differs.error().what, HasSubstr("differ from the master's by"));
  NormWeights near = norms;
  near.layers[0].ffn[3] += 2e-5f;
  const Weights off = load_weights(*slave, *device, &near).value();
  EXPECT_THAT(verify_norms(off, *stream, slave->config(), *master).error().what,
              HasSubstr("layer 0, MLP"));
}

TEST(NormOverrideTest, OtherWidthsAreRefused) {
  const TemporaryFile file(text_model({.vocabulary = make_byte_vocabulary({})}));
  const auto master = Checkpoint::open(file.path()).value();
  ModelConfig slave = master->config();
  slave.hidden_size = 64;
  const auto norms = norms_from_master(*master, slave);
  ASSERT_FALSE(norms);
  EXPECT_EQ(norms.error().code, ErrorCode::kIncompatible);
  EXPECT_THAT(norms.error().what, HasSubstr("32"));
  EXPECT_THAT(norms.error().what, HasSubstr("64"));
}

}  // namespace
}  // namespace suture
