#include "fusion/projector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "fusion/test_projector.h"

namespace suture {
namespace {

const TestProjector::Windows kWindows = {{{0, 2}, {1}}, {{0, 1, 2}, {0, 1, 2}}};

class ProjectorTest : public testing::Test {
 protected:
  struct Pair {
    Projector& projector;
    ProjectorSide& source;
    ProjectorSide& target;
  };

  Result<std::vector<std::string>> check(bool force) {
    return check_projector(projector_, source_, target_, force);
  }

  Projector projector_ = TestProjector(DType::kF16, kWindows).value;
  ProjectorSide source_ = projector_.source;
  ProjectorSide target_ = projector_.target;
};

TEST_F(ProjectorTest, WhoMeasuresTheEvidenceNeedsNone) {
  projector_.evidence.reset();
  EXPECT_FALSE(check(false));
  EXPECT_TRUE(check_projector_sides(projector_, source_, target_, false));
  source_.kv.model_fingerprint = "other weights";
  const auto sides = check_projector_sides(projector_, source_, target_, false);
  ASSERT_FALSE(sides);
  EXPECT_EQ(sides.error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(check_projector_sides(projector_, source_, target_, true)->size(), 1u);
  EXPECT_EQ(check(true)->size(), 2u);
}

TEST_F(ProjectorTest, SideSaysWhatStreamsOfTheModelSay) {
  const ProjectorSide side = projector_side("name", "print", "words", small_source());
  EXPECT_EQ(side.kv.model_fingerprint, "print");
  EXPECT_EQ(side.kv.shape, (KvShape{3, 2, 8, DType::kF16}));
  EXPECT_EQ(side.width(), 16);
  EXPECT_EQ(side.kv.ropes, small_source().ropes);
  EXPECT_EQ(side.kv.layer_ropes, (std::vector<int32_t>{0, 1, 0}));
}

TEST_F(ProjectorTest, SoundOnesAreValid) {
  EXPECT_TRUE(validate(projector_));
  projector_.evidence.reset();
  EXPECT_TRUE(validate(projector_));
  // (2 + 1 + 3 + 3 layers) x 16 x 12 weights of 2 bytes.
  EXPECT_EQ(projector_.weight_bytes(), 9 * 16 * 12 * 2);
}

TEST_F(ProjectorTest, MapsThatTakeTheTargetsFirstLayerHaveItsColumnsToo) {
  Projector own =
      TestProjector(DType::kF16, kWindows, small_source(), small_target(), 1, true).value;
  EXPECT_TRUE(validate(own));
  EXPECT_EQ(own.layers[0].key.in(), 2 * 16 + 12);
  EXPECT_EQ(own.weight_bytes(), (9 * 16 + 4 * 12) * 12 * 2);
  own.own_first_layer = false;
  EXPECT_FALSE(validate(own));
  projector_.own_first_layer = true;
  EXPECT_FALSE(validate(projector_));
}

TEST_F(ProjectorTest, RefusesPartsThatContradictEachOther) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::function<void(Projector&)>> changes = {
      [](Projector& p) { p.source.model.clear(); },
      [](Projector& p) { p.source.model = "\x1b[2J"; },
      [](Projector& p) { p.target.vocabulary_hash = std::string(5000, 'a'); },
      [](Projector& p) { p.target.kv.model_fingerprint.clear(); },
      [](Projector& p) { p.source.kv.shape.n_kv_heads = 0; },
      [](Projector& p) { p.source.kv.shape.head_dim = 7; },
      [](Projector& p) { p.target.kv.ropes.clear(); },
      [](Projector& p) { p.target.kv.token_ids = {1}; },
      [](Projector& p) { p.layers.pop_back(); },
      [](Projector& p) { p.layers[0].key.window.clear(); },
      [](Projector& p) {
        p.layers[0].key.window = {2, 0};
      },
      [](Projector& p) {
        p.layers[0].key.window = {0, 0};
      },
      [](Projector& p) {
        p.layers[0].key.window = {0, 3};
      },
      [](Projector& p) {
        p.layers[0].key.window = {-1, 0};
      },
      [](Projector& p) { p.layers[0].key.dtype = DType::kF32; },
      [](Projector& p) { p.layers[1].value.weights = p.layers[1].value.weights.first(5); },
      [](Projector& p) { p.layers[1].value.mean.pop_back(); },
      [](Projector& p) { p.layers[1].value.gamma.push_back(1); },
      [](Projector& p) { p.layers[1].value.beta.pop_back(); },
      [nan](Projector& p) { p.layers[1].value.mean[3] = nan; },
      [](Projector& p) { p.layers[1].key.gamma[0] = INFINITY; },
      [nan](Projector& p) { p.layers[1].key.r2 = nan; },
      [](Projector& p) { p.fit.tokens = -1; },
      [](Projector& p) { p.fit.files[0].sha256 = "A"; },
      [](Projector& p) { p.fit.files[0].name = "a\nb"; },
      [](Projector& p) { p.evidence->sink = -1; },
      [](Projector& p) { p.evidence->contexts[0].n = 0; },
      [nan](Projector& p) { p.evidence->contexts[0].nll.none = nan; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Projector changed = projector_;
    changes[i](changed);
    const Status status = validate(changed);
    ASSERT_FALSE(status) << "change " << i;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(status.error().where.empty());
  }
}

TEST_F(ProjectorTest, EvidenceIsGivenAsShares) {
  const EvidenceContext& context = projector_.evidence->contexts[0];
  EXPECT_DOUBLE_EQ(context.retention(), 0.75);     // (3 - 2.25) / (3 - 2)
  EXPECT_DOUBLE_EQ(context.net_retention(), 0.5);  // (2.5 - 2.25) / (2.5 - 2)
  EvidenceContext worthless;
  EXPECT_TRUE(std::isnan(worthless.retention()));
}

TEST_F(ProjectorTest, TheModelsItWasFittedForMayUseIt) {
  source_.model = "the same under another name";
  source_.kv.shape.dtype = DType::kBf16;
  const auto overridden = check(false);
  ASSERT_TRUE(overridden) << overridden.error().message();
  EXPECT_TRUE(overridden->empty());
}

TEST_F(ProjectorTest, ForceOverridesAndSaysWhat) {
  const std::vector<std::function<void(Pair)>> changes = {
      [](Pair p) { p.source.kv.model_fingerprint = "another"; },
      [](Pair p) { p.target.kv.model_fingerprint = "another"; },
      [](Pair p) { p.target.vocabulary_hash = "another"; },
      [](Pair p) { p.projector.evidence.reset(); },
      [](Pair p) { p.projector.evidence->contexts.clear(); },
      [](Pair p) { p.projector.evidence->contexts[0].nll.transferred = 2.75; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto [projector, source, target] = std::tuple(projector_, source_, target_);
    changes[i]({projector_, source_, target_});
    const auto refused = check(false);
    ASSERT_FALSE(refused) << "change " << i;
    EXPECT_EQ(refused.error().code, ErrorCode::kIncompatible);
    EXPECT_FALSE(refused.error().remedy.empty());
    const auto overridden = check(true);
    ASSERT_TRUE(overridden) << "change " << i;
    ASSERT_EQ(overridden->size(), 1U) << "change " << i;
    EXPECT_NE(refused.error().what.find(overridden->front()), std::string::npos);
    std::tie(projector_, source_, target_) = std::tuple(projector, source, target);
  }
}

TEST_F(ProjectorTest, NothingForcesAnotherShape) {
  target_.kv.shape.n_layers = 5;
  ASSERT_FALSE(check(true));
  EXPECT_EQ(check(true).error().code, ErrorCode::kIncompatible);
  target_ = projector_.target;
  source_.kv.shape.head_dim = 4;
  EXPECT_FALSE(check(true));
}

TEST_F(ProjectorTest, RowsOfSeveralRotationsAreRefused) {
  EXPECT_TRUE(check_one_rope_epoch(source_, 1 << 20));
  source_.kv.ropes[1] = {.scaling = RopeScaling::kDynamic, .factor = 2, .original_positions = 2048};
  EXPECT_TRUE(check_one_rope_epoch(source_, 2048));
  const Status status = check_one_rope_epoch(source_, 4096);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().remedy.find("rope_length = 4096"), std::string::npos);
  source_.kv.ropes[1].fixed_length = 4096;
  EXPECT_TRUE(check_one_rope_epoch(source_, 4096));
}

TEST_F(ProjectorTest, WeightsAreRoundedToNearestEven) {
  // Half way between 1 and the next number of each type, and between that one and the one after.
  const std::vector<float> values = {1, -0.5F, 1 + 0x1p-11F, 1 + 3 * 0x1p-11F, 1 + 0x1p-8F};
  EXPECT_EQ(*round_weights(DType::kF16, values),
            (std::vector<uint16_t>{0x3c00, 0xb800, 0x3c00, 0x3c02, 0x3c04}));
  EXPECT_EQ(*round_weights(DType::kBf16, values),
            (std::vector<uint16_t>{0x3f80, 0xbf00, 0x3f80, 0x3f80, 0x3f80}));
  EXPECT_FALSE(round_weights(DType::kF16, std::vector<float>{70000}));
  EXPECT_TRUE(round_weights(DType::kBf16, std::vector<float>{70000}));
  EXPECT_FALSE(round_weights(DType::kBf16, std::vector<float>{NAN}));
  EXPECT_FALSE(round_weights(DType::kF32, values));
}

}  // namespace
}  // namespace suture
