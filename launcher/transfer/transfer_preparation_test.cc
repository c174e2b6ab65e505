#include "launcher/transfer/transfer_preparation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

// printf 'b%.0s' $(seq 40) | sha256sum
constexpr const char* kSecondText =
    "e26d2da3ab585c9840b157a4a9b5639fda905c2ad33d04d2c598be8883b51236";

// Models of 256 positions whose tokens are bytes.
class TransferPreparationTest : public testing::Test {
 protected:
  TransferPreparationTest()
      : large_(text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 3})),
        small_(text_model({.vocabulary = make_chat_vocabulary({"t h"}), .n_layers = 2})),
        twin_(text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 2, .seed = 3})) {
    const auto text =
        folder_.write("t.jsonl", "{\"text\": \"" + std::string(60, 'a') + "\"}\n{\"text\": \"" +
                                     std::string(40, 'b') + "\", \"kind\": \"code\"}\n");
    options_.source = options_.target = large_.path().string();
    options_.texts = {text.string()};
    options_.lengths = {16, 32};
    options_.continued = 8;
    options_.sink = 2;
    options_.reread = 4;
  }

  std::string refused() const {
    const auto prepared = prepare_transfer(options_);
    return prepared ? std::string() : prepared.error().message();
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  // Between these models, without evidence.
  std::string projector(const std::vector<FitFile>& files) const {
    const TransferModel source = open_transfer_model(options_.source).value();
    const TransferModel target = open_transfer_model(options_.target).value();
    TestProjector projector(DType::kBf16, {{{0}, {0}}, {{1}, {1}}, {{0, 1}, {1}}}, source.config,
                            target.config);
    projector.value.source = source.side();
    projector.value.target = target.side();
    projector.value.evidence.reset();
    projector.value.fit.files = files;
    const auto path = folder_.path() / "p.suture";
    EXPECT_TRUE(write_projector(path, projector.value));
    return path.string();
  }

  TestFolder folder_;
  const TemporaryFile large_;
  const TemporaryFile small_;
  const TemporaryFile twin_;
  TransferOptions options_;
};

TEST_F(TransferPreparationTest, OneModelNeedsNoProjector) {
  const auto prepared = prepare_transfer(options_);
  ASSERT_TRUE(prepared) << prepared.error().message();
  ASSERT_EQ(prepared->plans.size(), 2u);
  EXPECT_EQ(prepared->plans[0].passages.size(), 2u);
  EXPECT_EQ(prepared->plans[1].passages.size(), 2u);
  const TransferSetup setup = transfer_setup(options_, *prepared);
  EXPECT_EQ(setup.target_alone.models.size(), 1u);
  EXPECT_EQ(setup.transferring.max_seq_len, 42);
  ASSERT_EQ(setup.transferring.models.size(), 2u);
  EXPECT_EQ(setup.transferring.master().name, "target");
  const FusionSpec& fusion = setup.transferring.models[1].fusion;
  EXPECT_EQ(fusion.mode, FusionMode::kTransfer);
  EXPECT_EQ(fusion.sink, 2);
  EXPECT_EQ(fusion.reread, 4);
  EXPECT_EQ(fusion.gain, 0);
  EXPECT_EQ(setup.text_only.models[1].fusion.gain, -std::numeric_limits<double>::infinity());
  const std::vector<int32_t> ids = {97, 98};
  EXPECT_EQ(setup.source_tokens(ids), ids);
}

TEST_F(TransferPreparationTest, ASourceOfAnotherVocabularyReadsTheSameText) {
  options_.source = small_.path().string();
  options_.projector = projector({});
  const auto prepared = prepare_transfer(options_);
  ASSERT_TRUE(prepared) << prepared.error().message();
  const TransferSetup setup = transfer_setup(options_, *prepared);
  EXPECT_EQ(setup.source_tokens({'o', 't', 'h'}), (std::vector<int32_t>{'o', 256}));
}

TEST_F(TransferPreparationTest, WhatCannotBeMeasuredIsRefusedWithARemedy) {
  options_.write_evidence = true;
  EXPECT_TRUE(contains(refused(), "no projector for the evidence")) << refused();
  options_.write_evidence = false;
  options_.source = small_.path().string();
  EXPECT_TRUE(contains(refused(), "--projector: the rows of")) << refused();
  options_.projector = (folder_.path() / "none.suture").string();
  EXPECT_TRUE(contains(refused(), "none.suture")) << refused();
  options_.projector = options_.texts[0];
  EXPECT_TRUE(contains(refused(), "t.jsonl")) << refused();
  options_.projector = projector({});
  EXPECT_EQ(refused(), "");
  options_.source = twin_.path().string();  // of the same shape
  EXPECT_TRUE(contains(refused(), "fitted for other weights")) << refused();
  options_.force = true;
  EXPECT_TRUE(contains(prepare_transfer(options_)->report.forced.at(0), "other weights"));
  options_.force = false;
  options_.projector.clear();
  options_.source = options_.target;
  options_.lengths = {100};
  EXPECT_TRUE(contains(refused(), "no text has the 100 tokens")) << refused();
  EXPECT_TRUE(contains(refused(), "the longest has 60")) << refused();
  options_.lengths = {6};
  EXPECT_TRUE(contains(refused(), "of 6 tokens 6 are read again")) << refused();
  options_.lengths = {300};
  EXPECT_TRUE(contains(refused(), "the models have 256 positions")) << refused();
  options_.lengths = {16};
  options_.texts = {folder_.write("one.txt", "only one").string()};
  EXPECT_TRUE(contains(refused(), "fewer than two")) << refused();
  options_.texts = {"/no/such/file.txt"};
  EXPECT_TRUE(contains(refused(), "no such file")) << refused();
  options_.target = "/no/such/model.gguf";
  EXPECT_TRUE(contains(refused(), "/no/such/model.gguf")) << refused();
}

TEST_F(TransferPreparationTest, DefaultLengthsGoAsFarAsThePositions) {
  options_.lengths.clear();
  options_.texts = {folder_.write("a.txt", std::string(300, 'a')).string(),
                    folder_.write("b.txt", std::string(300, 'b')).string()};
  const auto prepared = prepare_transfer(options_);
  ASSERT_TRUE(prepared) << prepared.error().message();
  ASSERT_EQ(prepared->plans.size(), 1u);
  EXPECT_EQ(prepared->plans[0].tokens, 128);
  ASSERT_EQ(prepared->report.notes.size(), 1u);
  EXPECT_TRUE(contains(prepared->report.notes[0], "above 248 tokens"));
}

TEST_F(TransferPreparationTest, TextsOfTheFitAreNotMeasuredUnlessForced) {
  options_.projector = projector({{"another text", std::string(64, 'a')}});
  EXPECT_EQ(refused(), "");
  options_.projector = projector({{"the second text", kSecondText}});
  EXPECT_TRUE(contains(refused(), "1 of 2 texts are among those")) << refused();
  options_.force = true;
  const auto forced = prepare_transfer(options_);
  ASSERT_TRUE(forced) << forced.error().message();
  EXPECT_TRUE(forced->report.fitted_measured);
  options_.force = false;
  options_.held_out = true;
  EXPECT_TRUE(contains(refused(), "fewer than two")) << refused();
  options_.texts.push_back(folder_.write("c.txt", std::string(50, 'c')).string());
  const auto held_out = prepare_transfer(options_);
  ASSERT_TRUE(held_out) << held_out.error().message();
  EXPECT_EQ(held_out->report.fitted, 1);
  EXPECT_FALSE(held_out->report.fitted_measured);
  EXPECT_EQ(held_out->report.texts, 2);
}

}  // namespace
}  // namespace suture
