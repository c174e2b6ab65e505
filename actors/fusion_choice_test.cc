#include "actors/fusion_choice.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

class FusionChoiceTest : public testing::Test {
 protected:
  FusionChoiceTest() {
    TestProjector made(DType::kBf16, {{{0}, {1}}, {{2}, {0, 1}}});
    for (ProjectorSide* side : {&made.value.source, &made.value.target})
      side->vocabulary_hash = tokenizer_->vocabulary_hash();
    projector_ = std::make_unique<Projector>(made.value);
    write();
  }
  void write() { EXPECT_TRUE(write_projector(path_, *projector_)); }

  PairSide slave() const {
    return {"s", small_source(), *tokenizer_, nullptr, "fingerprint of the reader"};
  }
  PairSide master() const {
    return {"m", small_target(), *tokenizer_, nullptr, "fingerprint of the writer"};
  }
  FusionSpec spec(FusionMode mode, bool with_projector) const {
    FusionSpec spec;
    spec.mode = mode;
    if (with_projector) spec.projector = path_;
    return spec;
  }
  static FusionChoice choose(const FusionSpec& spec, const PairSide& master,
                             const PairSide& slave) {
    return choose_fusion(spec, master, slave, 64);
  }

  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::create(make_byte_vocabulary({"a b"})).value();
  TestFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "p.suture";
  std::unique_ptr<Projector> projector_;
};

TEST_F(FusionChoiceTest, AModeThatIsAskedForIsTaken) {
  const FusionChoice project = choose(spec(FusionMode::kProject, true), master(), slave());
  EXPECT_TRUE(project.verdict) << project.verdict.error().message();
  EXPECT_EQ(project.mode, FusionMode::kProject);
  EXPECT_EQ(project.reason, "");
  ASSERT_TRUE(project.evidence.has_value());
  EXPECT_EQ(project.evidence->contexts.size(), 1u);
  EXPECT_TRUE(project.overridden.empty());
  EXPECT_TRUE(choose(spec(FusionMode::kTransfer, true), master(), slave()).verdict);
  EXPECT_TRUE(choose(spec(FusionMode::kTransfer, false), master(), master()).verdict);
  EXPECT_FALSE(choose(spec(FusionMode::kTransfer, false), master(), slave()).verdict);
  EXPECT_TRUE(choose(spec(FusionMode::kConcat, false), master(), master()).verdict);
  EXPECT_FALSE(choose(spec(FusionMode::kConcat, false), master(), slave()).verdict);
}

TEST_F(FusionChoiceTest, AutoTakesWhatFitsAndSaysWhy) {
  const FusionSpec open = spec(FusionMode::kAuto, true);
  const FusionChoice same = choose(open, slave(), slave());
  EXPECT_EQ(same.mode, FusionMode::kConcat);
  EXPECT_EQ(same.reason, "one and the same model");
  PairSide tuned = slave();
  tuned.fingerprint = "of a fine-tune";
  const FusionChoice compatible = choose(open, tuned, slave());
  EXPECT_EQ(compatible.mode, FusionMode::kConcat);
  EXPECT_TRUE(compatible.verdict);
  EXPECT_NE(compatible.reason.find("compatible"), std::string::npos);
  const FusionChoice mapped = choose(open, master(), slave());
  EXPECT_TRUE(mapped.verdict);
  EXPECT_EQ(mapped.mode, FusionMode::kProject);
  EXPECT_NE(mapped.reason.find("kv heads 3 and 2"), std::string::npos) << mapped.reason;
}

TEST_F(FusionChoiceTest, WhereNothingFitsWordsAreHandedOver) {
  const FusionChoice none = choose(spec(FusionMode::kAuto, false), master(), slave());
  EXPECT_TRUE(none.verdict);
  EXPECT_EQ(none.mode, FusionMode::kText);
  EXPECT_NE(none.reason.find("kv heads 3 and 2"), std::string::npos) << none.reason;
  EXPECT_NE(none.reason.find("there is no projector"), std::string::npos) << none.reason;
  EXPECT_TRUE(none.rows.empty());
  const FusionChoice asked = choose(spec(FusionMode::kText, false), master(), slave());
  EXPECT_TRUE(asked.verdict);
  EXPECT_EQ(asked.mode, FusionMode::kText);
  EXPECT_EQ(asked.reason, "");
  EXPECT_EQ(choose(spec(FusionMode::kText, false), master(), master()).mode, FusionMode::kText);
}

TEST_F(FusionChoiceTest, AProjectorThatDoesNotFitIsRefusedWithBothReasons) {
  PairSide stranger = slave();
  stranger.fingerprint = "of another model";
  const FusionChoice refused = choose(spec(FusionMode::kAuto, true), master(), stranger);
  ASSERT_FALSE(refused.verdict);
  EXPECT_NE(refused.verdict.error().what.find("fitted for other weights"), std::string::npos);
  EXPECT_NE(refused.verdict.error().what.find("kv heads"), std::string::npos);
  EXPECT_NE(refused.verdict.error().where.find("slave \"s\""), std::string::npos);
  FusionSpec forced = spec(FusionMode::kProject, true);
  forced.force = true;
  const FusionChoice taken = choose(forced, master(), stranger);
  EXPECT_TRUE(taken.verdict);
  EXPECT_EQ(taken.overridden.size(), 1u);
  folder_.write("p.suture", "nothing of the kind");
  EXPECT_FALSE(choose(forced, master(), slave()).verdict);
}

// A rotation that changes within the text is more than one map can serve.
TEST_F(FusionChoiceTest, ARotationThatGrowsWithTheTextIsRefused) {
  PairSide growing = slave();
  growing.config.ropes[0].scaling = RopeScaling::kDynamic;
  growing.config.ropes[0].factor = 2;
  growing.config.ropes[0].original_positions = 32;
  FusionSpec forced = spec(FusionMode::kProject, true);
  forced.force = true;
  const FusionChoice refused = choose(forced, master(), growing);
  ASSERT_FALSE(refused.verdict);
  EXPECT_NE(refused.verdict.error().remedy.find("rope_length = 64"), std::string::npos);
}

}  // namespace
}  // namespace suture
