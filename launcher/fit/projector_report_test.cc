#include "launcher/fit/projector_report.h"

#include <gtest/gtest.h>

#include "fusion/test_projector.h"

namespace suture {
namespace {

Projector projector() {
  return TestProjector(DType::kF16, {{{0, 1, 2}, {2}}, {{0, 2}, {1, 2}}}).value;
}

TEST(ProjectorReport, NamesModelsTextsWindowsAndEvidence) {
  const std::string text = projector_report(projector());
  for (const char* part : {"reader-1b (3 layers of 2 K/V heads of 8)", "writer-2b", "40 texts",
                           "calibration.jsonl", "0-2", "0,2", "1-2", "maths", "first 4, last 32"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // (3 - 2.25) / (3 - 2) and (2.5 - 2.25) / (2.5 - 2)
  EXPECT_NE(text.find("75 %  50 %"), std::string::npos) << text;
}

TEST(ProjectorReport, SaysWhatMapsTake) {
  EXPECT_NE(projector_report(projector()).find("source's layers alone"), std::string::npos);
  EXPECT_FALSE(projector_json(projector()).at("own_first_layer"));
  const Projector own =
      TestProjector(DType::kF16, {{{0}, {2}}, {{0}, {1}}}, small_source(), small_target(), 1, true)
          .value;
  EXPECT_NE(projector_report(own).find("target's own first layer"), std::string::npos);
  EXPECT_TRUE(projector_json(own).at("own_first_layer"));
}

TEST(ProjectorReport, SaysThatNothingWasMeasured) {
  Projector bare = projector();
  bare.evidence.reset();
  EXPECT_NE(projector_report(bare).find("suture transfer"), std::string::npos);
  EXPECT_TRUE(projector_json(bare).at("evidence").is_null());
}

TEST(ProjectorReport, IsTheSameForPrograms) {
  const nlohmann::json json = projector_json(projector());
  EXPECT_EQ(json.at("source").at("kv_heads"), 2);
  EXPECT_EQ(json.at("fit").at("files").at(0).at("sha256"), std::string(64, 'a'));
  EXPECT_EQ(json.at("fit").at("held_out").at(0).at("value").at("r2"), 0.625);
  EXPECT_EQ(json.at("layers").at(1).at("key").at("window"), (std::vector<int>{0, 2}));
  EXPECT_EQ(json.at("evidence").at("contexts").at(0).at("retention"), 0.75);
}

TEST(ProjectorReport, AContextThatIsWorthNothingHasNoRetention) {
  Projector worthless = projector();
  EvidenceNll& nll = worthless.evidence->contexts[0].nll;
  nll.none = nll.self;
  const auto context = projector_json(worthless).at("evidence").at("contexts").at(0);
  EXPECT_TRUE(context.at("retention").is_null());
}

}  // namespace
}  // namespace suture
