// Projectors fitted by processes of two small models, as `suture fit` does it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "fusion/projector_file.h"
#include "launcher/fit/run_fit.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr size_t kTextBytes = 100;

// Texts of two kinds, all different.
std::string calibration_lines(int n_texts) {
  static constexpr const char* kWords[] = {"rain", "north", "stone", "quick", "seven", "tall",
                                           "over", "under", "light", "black", "wine",  "xylem",
                                           "jade", "forty", "gamma", "puzzle"};
  std::string lines;
  uint32_t state = 1;
  for (int i = 0; i < n_texts; ++i) {
    std::string text;
    while (text.size() < kTextBytes) {
      state = state * 1664525 + 1013904223;
      text += fmt::format("{} ", kWords[state >> 28]);
    }
    text.resize(kTextBytes);
    lines += fmt::format("{{\"text\": \"{}\", \"kind\": \"{}\"}}\n", text, i % 2 ? "odd" : "even");
  }
  return lines;
}

// Processes that this one has started and that live.
std::vector<pid_t> child_processes() {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    if (parent == ::getpid() && state != 'Z')
      children.push_back(std::stoi(entry.path().filename().string()));
  }
  return children;
}

std::vector<std::vector<uint16_t>> weights_of(const Projector& projector) {
  std::vector<std::vector<uint16_t>> all;
  for (const LayerProjection& layer : projector.layers)
    for (const LinearMap* map : {&layer.key, &layer.value})
      all.emplace_back(map->weights.begin(), map->weights.end());
  return all;
}

class FitTest : public testing::Test {
 protected:
  FitTest() : texts_(folder_.write("texts.jsonl", calibration_lines(24))) {}

  FitOptions options(const std::string& out = "p.suture") const {
    FitOptions options;
    options.source = {"source", source_.path()};
    options.target = {"target", target_.path()};
    options.texts = {texts_};
    options.out = folder_.path() / out;
    options.memory_bytes = uint64_t{2} << 30;
    options.tokens = kTextBytes;
    options.held_out_share = 0.25;
    options.ridges = {1e-6};
    options.threads = 2;
    options.program = SUTURE_BINARY;
    return options;
  }

  // `on_text` is called with the number of texts that were gathered.
  Result<FitReport> fit(const FitOptions& options,
                        const std::function<void(int64_t)>& on_text = {}) {
    const FitSurroundings surroundings{
        .on_plan = [](const FitPlan&, int64_t) {},
        .on_message = [this](const std::string& line) { messages_ += line + "\n"; },
        .on_progress =
            [&on_text](std::string_view what, int64_t done, int64_t) {
              if (what == "text" && on_text) on_text(done);
            },
        .cancelled = cancelled_};
    return run_fit(options, surroundings);
  }

  TestFolder folder_;
  const std::filesystem::path texts_;
  const Vocabulary bytes_ = make_byte_vocabulary({});
  const TemporaryFile target_{text_model({.vocabulary = bytes_, .n_layers = 3, .seed = 5})};
  // The same weights in layers 0 to 2, turned by another rule, in another order; one layer more.
  const TemporaryFile source_{text_model({.vocabulary = bytes_,
                                          .n_layers = 4,
                                          .seed = 5,
                                          .theta = 5e5F,
                                          .pairing = RopePairing::kNeighbours,
                                          .half_precision = true})};
  std::atomic<bool> cancelled_ = false;
  std::string messages_;
};

TEST_F(FitTest, WritesAProjectorThatLoadsAndSaysHowGoodItIs) {
  FitOptions alone = options();
  alone.own_first_layer = false;
  const auto report = fit(alone);
  ASSERT_TRUE(report) << report.error().message();
  const auto projector = read_projector(options().out);
  ASSERT_TRUE(projector) << projector.error().message();
  EXPECT_FALSE(projector->own_first_layer);
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(options().out)));
  EXPECT_EQ(weights_of(*projector), weights_of(report->projector));
  ASSERT_EQ(projector->layers.size(), 3U);
  // The first layer's K before rotation is a function of the token alone, and V too: the same in
  // both models, whatever rotates it.
  EXPECT_GT(projector->layers[0].key.r2, 0.999);
  EXPECT_GT(projector->layers[0].value.r2, 0.999);
  EXPECT_EQ(projector->source.model, "source");
  EXPECT_EQ(projector->fit.texts, 18);
  EXPECT_EQ(projector->fit.held_out_texts, 6);
  EXPECT_EQ(projector->fit.tokens, 18 * 96);
  ASSERT_EQ(projector->fit.held_out_kinds.size(), 2U);
  EXPECT_EQ(projector->fit.held_out_kinds[0].kind, "even");
  EXPECT_EQ(projector->fit.held_out_kinds[0].texts, 3);
  EXPECT_EQ(projector->fit.held_out_kinds[0].tokens, 3 * 96);
  EXPECT_GT(report->times.models_cpu_seconds, 0);
  EXPECT_EQ(report->times.target_tokens, 24 * 100);
  const SutureRun inspect = run_suture({"--json", "inspect", options().out.string()});
  EXPECT_EQ(inspect.exit_code, 0) << inspect.errors;
  EXPECT_EQ(inspect.json().at("fit").at("tokens"), 18 * 96);
  EXPECT_EQ(inspect.json().at("layers").size(), 3U);
}

// A source that is nothing like the target: all that it has of the target's words is the first
// layer.
TEST_F(FitTest, TheTargetsOwnFirstLayerTellsWhichWordARowIsOf) {
  const TemporaryFile stranger(text_model({.vocabulary = bytes_, .n_layers = 1, .seed = 9}));
  FitOptions with = options("with.suture");
  with.source.path = stranger.path();
  FitOptions without = with;
  without.out = folder_.path() / "without.suture";
  without.own_first_layer = false;
  const auto own = fit(with);
  const auto alone = fit(without);
  ASSERT_TRUE(own && alone);
  EXPECT_TRUE(read_projector(with.out)->own_first_layer);
  for (const auto map : {&LayerProjection::key, &LayerProjection::value}) {
    EXPECT_GT((own->projector.layers[0].*map).r2, 0.999);
    EXPECT_LT((alone->projector.layers[0].*map).r2, 0.99);
    EXPECT_GT((own->projector.layers[1].*map).r2, (alone->projector.layers[1].*map).r2);
  }
}

TEST_F(FitTest, OtherVocabulariesAreRowsThatEndTogether) {
  const TemporaryFile words(text_model(
      {.vocabulary = make_byte_vocabulary({"r a", "i n", "ra in", "o n"}), .n_layers = 2}));
  FitOptions other = options();
  other.source = {"words", words.path()};
  const auto report = fit(other);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_GT(report->projector.fit.tokens, 1000);
  EXPECT_LT(report->projector.fit.tokens, 18 * 96);
  EXPECT_TRUE(read_projector(other.out));
}

TEST_F(FitTest, GoesOnAfterAKilledProcessToTheSameBits) {
  const auto whole = fit(options("whole.suture"));
  ASSERT_TRUE(whole) << whole.error().message();
  const auto killed = fit(options(), [](int64_t texts) {
    if (texts == 5)
      for (const pid_t child : child_processes()) ::kill(child, SIGKILL);
  });
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().code, ErrorCode::kLost);
  EXPECT_TRUE(killed.error().where == "source" || killed.error().where == "target")
      << killed.error().message();
  EXPECT_NE(killed.error().what.find("signal 9"), std::string::npos) << killed.error().what;
  EXPECT_NE(killed.error().remedy.find("--resume"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(options().out));

  const auto again = fit(options());
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().remedy.find("--resume"), std::string::npos);

  FitOptions resumed = options();
  resumed.resume = true;
  std::optional<int64_t> first;
  const auto report = fit(resumed, [&first](int64_t texts) {
    if (!first) first = texts;
  });
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_GT(first.value_or(0), 5);
  EXPECT_EQ(weights_of(report->projector), weights_of(whole->projector));
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(options().out)));
}

TEST_F(FitTest, AnInterruptKeepsWhatWasGathered) {
  const auto interrupted = fit(options(), [this](int64_t texts) { cancelled_ = texts == 3; });
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code, ErrorCode::kCancelled);
  cancelled_ = false;
  FitOptions other = options();
  other.resume = true;
  other.tokens = 90;
  const auto elsewhere = fit(other);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kIncompatible);
  folder_.write("p.suture.partial", "nonsense");
  other.tokens = kTextBytes;
  EXPECT_FALSE(fit(other));
}

TEST_F(FitTest, SaysWhatIsWrongBeforeAnythingStarts) {
  FitOptions wrong = options();
  wrong.memory_bytes = 1'000'000;
  EXPECT_EQ(fit(wrong).error().code, ErrorCode::kOutOfMemory);
  wrong = options("none/p.suture");
  EXPECT_EQ(fit(wrong).error().code, ErrorCode::kNotFound);
  wrong = options();
  wrong.texts = {folder_.path() / "none.jsonl"};
  EXPECT_EQ(fit(wrong).error().code, ErrorCode::kNotFound);
  const SutureRun run = run_suture({"--json", "fit", "--source", source_.path().string(),
                                    "--target", target_.path().string(), "--out",
                                    (folder_.path() / "p.suture").string(), "--window", "wide"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.json().at("error").at("where"), "--window");
  EXPECT_TRUE(messages_.empty()) << messages_;
}

TEST_F(FitTest, AProcessThatDoesNotComeUpIsNamed) {
  FitOptions broken = options();
  broken.program = "/bin/false";
  const auto report = fit(broken);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kLost);
  EXPECT_TRUE(report.error().where == "source" || report.error().where == "target")
      << report.error().message();
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(broken.out)));
}

TEST_F(FitTest, TheCommandPrintsATable) {
  const SutureRun run = run_suture(
      {"fit", "--source", source_.path().string(), "--target", target_.path().string(), "--text",
       texts_.string(), "--out", (folder_.path() / "p.suture").string(), "--tokens-per-text", "100",
       "--held-out", "0.25", "--window", "all", "--ridge", "1e-6,1e-3", "--threads", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("0-3"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("held-out texts"), std::string::npos);
  EXPECT_NE(run.errors.find("memory (MB)"), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace suture
