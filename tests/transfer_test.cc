// A text that one model has read and another continues, in processes, against the same computed
// in one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>

#include "actors/launch.h"
#include "fusion/projector_file.h"
#include "tests/test_mapped_launch.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kQuestion =
    "the rain in the north came down on the other hand of the hill, so why is it dry there";
constexpr int64_t kSink = 4, kReread = 8;

std::vector<int32_t> part(const std::vector<int32_t>& ids, int64_t begin, int64_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}

class TransferSystemTest : public MappedLaunchTest {
 protected:
  std::unique_ptr<Launch> start(const std::string& fusion, const TemporaryFile& slave,
                                const std::string& file_lines = "") const {
    return start_text_launch({folder_.path(), master_.path(), slave.path(),
                              fusion.empty() ? "" : "fusion = { " + fusion + " }\n", file_lines});
  }
  static std::string transfer(const std::string& more = "") {
    return fmt::format("mode = \"transfer\", sink = {}, reread = {}{}", kSink, kReread, more);
  }
  static Scoring score(Launch& launch, const SlaveTexts& texts = {}) {
    return MappedLaunchTest::score(
        launch,
        {.text = kQuestion, .continuations = {" because of the wind", "x"}, .slave_texts = texts});
  }
  static Result<Answer> ask(
      Launch& launch, int64_t max_tokens,
      const std::function<void(std::string_view)>& on_text = [](std::string_view) {}) {
    const std::atomic<bool> never = false;
    AskOptions options;
    options.text = kQuestion;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    return launch.ask(options, on_text, never);
  }

  static std::vector<int32_t> ids_of(const ScoredContinuation& continuation) {
    std::vector<int32_t> ids;
    for (const ScoredToken& token : continuation.tokens) ids.push_back(token.id);
    return ids;
  }
  // What the launch has given, to the last bit.
  void expect_as_in_one_process(const Scoring& scoring, const TemporaryFile& slave,
                                const Projector* projector) const {
    const auto master = load_model(master_.path());
    const std::vector<int32_t>& question = scoring.question_ids;
    const int64_t end = std::ssize(question) - kReread;
    MappedRows rows(slave.path(), *master, part(question, 0, end), projector);
    ForeignSegment segment = rows.segment(kSink, end);
    segment.lag = 0;
    const SequencePlan plan{
        .own = {{0, 0}, {kSink, end - kSink}}, .before = {segment}, .after = {}};
    for (size_t i = 0; i < scoring.continuations.size(); ++i) {
      const std::vector<int32_t> continuation = ids_of(scoring.continuations[i]);
      std::vector<int32_t> ids = part(question, 0, kSink);
      ids.insert(ids.end(), question.begin() + end, question.end());
      ids.insert(ids.end(), continuation.begin(), continuation.end());
      EXPECT_EQ(logprobs(scoring)[i], logprobs_of(*master, plan, ids, std::ssize(continuation)));
    }
  }
};

TEST_F(TransferSystemTest, TheSameModelContinuesAsIfItHadReadItself) {
  const auto launch = start(transfer(), master_);
  const Scoring scoring = score(*launch);
  expect_as_in_one_process(scoring, master_, nullptr);
  // Its rows are the master's own, merged in other pieces.
  const auto alone = start("", master_);
  const auto own = logprobs(score(*alone));
  for (size_t i = 0; i < own.size(); ++i)
    for (size_t j = 0; j < own[i].size(); ++j)
      EXPECT_NEAR(logprobs(scoring)[i][j], own[i][j], 1e-4) << i << " " << j;
  EXPECT_EQ(ask(*launch, 48)->token_ids, ask(*alone, 48)->token_ids);
  // The master read nothing but its first and last tokens.
  const auto answer = ask(*launch, 4);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->figures.at(0).prompt_tokens, kSink + kReread);
  EXPECT_GT(answer->figures.at(1).prompt_tokens + answer->figures.at(1).reused_tokens, 80);
}

TEST_F(TransferSystemTest, AnotherModelContinuesWithMappedRows) {
  const Projector projector = make_projector(other_);
  const std::string fusion = transfer(", projector = \"p.suture\"");
  const auto launch = start(fusion, other_);
  const Scoring scoring = score(*launch);
  expect_as_in_one_process(scoring, other_, &projector);
  const auto answer = ask(*launch, 48);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_TRUE(answer->forced.empty());
  // The same bits in one process, and once more.
  const auto in_process = start(fusion, other_, "placement = \"in-process\"");
  EXPECT_EQ(logprobs(score(*in_process)), logprobs(scoring));
  EXPECT_EQ(ask(*in_process, 48)->token_ids, answer->token_ids);
  EXPECT_EQ(logprobs(score(*launch)), logprobs(scoring));
  // Rows of another text are other rows; at gain -inf they say nothing at all.
  EXPECT_NE(logprobs(score(*launch, {.aligned_text = "how far is it to the sea"})),
            logprobs(scoring));
  const auto silent = start(fusion + ", gain = -inf", other_);
  EXPECT_EQ(logprobs(score(*silent, {.aligned_text = "how far is it to the sea"})),
            logprobs(score(*silent)));
  EXPECT_NE(logprobs(score(*silent)), logprobs(scoring));
}

TEST_F(TransferSystemTest, AModelOfAnotherVocabularyHandsOverByBytes) {
  const Projector projector = make_projector(stranger_);
  const auto launch = start(transfer(", projector = \"p.suture\""), stranger_);
  expect_as_in_one_process(score(*launch), stranger_, &projector);
}

// Turns of a conversation, of which each goes on from what the slave has read before.
TEST_F(TransferSystemTest, AConversationIsReadOnByTheSlave) {
  make_projector(other_);
  const auto launch = start(transfer(", projector = \"p.suture\""), other_);
  const std::atomic<bool> never = false;
  AskOptions options;
  options.text = kQuestion;
  options.max_tokens = 8;
  options.ignore_eos = true;
  options.conversation = launch->open_conversation({})->id;
  const auto first = launch->ask(
      options, [](std::string_view) {}, never);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_EQ(first->token_ids, ask(*launch, 8)->token_ids);
  options.text = "and when does it end";
  const auto second = launch->ask(
      options, [](std::string_view) {}, never);
  ASSERT_TRUE(second.has_value()) << second.error().message();
  EXPECT_EQ(second->figures.at(0).prompt_tokens, kSink + kReread);
  EXPECT_GT(second->figures.at(1).reused_tokens, 80);
  // Where nothing is kept of the earlier turns all of it is read.
  const auto history = launch->open_conversation({{kQuestion, first->text}});
  options.conversation = history->id;
  const auto anew = launch->ask(
      options, [](std::string_view) {}, never);
  ASSERT_TRUE(anew.has_value());
  EXPECT_LT(anew->figures.at(1).reused_tokens, 80);
}

// The master reads the text itself from the token on at which the slave was lost.
TEST_F(TransferSystemTest, AKilledSlaveLeavesTheTextToTheMaster) {
  make_projector(other_);
  const auto launch = start(transfer(", projector = \"p.suture\""), other_, "restarts = 0");
  bool killed = false;
  const auto answer = ask(*launch, 120, [&](std::string_view) {
    if (std::exchange(killed, true)) return;
    ::kill(launch->snapshot().processes.at(1).pid, SIGKILL);
    while (launch->snapshot().processes.at(1).state != ProcessState::kLost)
      std::this_thread::yield();
  });
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->token_ids.size(), 120u);
  ASSERT_EQ(answer->degraded.size(), 1u);
  EXPECT_EQ(answer->degraded[0].slave, "s");
  const int64_t token = answer->degraded[0].token;
  ASSERT_GT(token, 0);
  ASSERT_LT(token, 120);
  const auto master = load_model(master_.path());
  std::vector<int32_t> ids = score(*start("", master_)).question_ids;
  ids.insert(ids.end(), answer->token_ids.begin(), answer->token_ids.begin() + token);
  const auto cache = master->make_cache(256).value();
  const float* logits = read_alone(*master, *cache, ids);
  for (auto i = static_cast<size_t>(token); i < answer->token_ids.size(); ++i) {
    const int32_t next = best_token(*master, logits);
    ASSERT_EQ(answer->token_ids[i], next) << i << ", slave lost at " << token;
    logits = master->decode(next, *cache).value();
  }
  // The next answer has no slave from the start.
  const auto next = ask(*launch, 8);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  ASSERT_EQ(next->degraded.size(), 1u);
  EXPECT_EQ(next->degraded[0].token, 0);
  EXPECT_EQ(next->token_ids, ask(*start("", master_), 8)->token_ids);
}

TEST_F(TransferSystemTest, OnFailureFailEndsTheAnswer) {
  const auto launch = start_text_launch({folder_.path(), master_.path(), master_.path(),
                                         "fusion = { " + transfer() + " }\non_failure = \"fail\"\n",
                                         "restarts = 0"});
  bool killed = false;
  const auto answer = ask(*launch, 120, [&](std::string_view) {
    if (std::exchange(killed, true)) return;
    ::kill(launch->snapshot().processes.at(1).pid, SIGKILL);
    while (launch->snapshot().processes.at(1).state != ProcessState::kLost)
      std::this_thread::yield();
  });
  ASSERT_FALSE(answer.has_value());
  EXPECT_NE(answer.error().what.find("lost at token"), std::string::npos)
      << answer.error().message();
}

TEST_F(TransferSystemTest, ProjectorsThatDoNotFitAreRefusedBeforeAnythingStarts) {
  make_projector(stranger_);
  const std::string fusion = transfer(", projector = \"p.suture\"");
  const auto check = [&](const std::string& keys) {
    const auto path =
        folder_.write("t.toml", text_topology({folder_.path(), master_.path(), other_.path(),
                                               "fusion = { " + keys + " }\n", ""}));
    return run_suture({"check", path.string()});
  };
  const SutureRun other_shape = check(fusion);
  EXPECT_EQ(other_shape.exit_code, 3) << other_shape.output;
  EXPECT_NE(other_shape.errors.find("1 K/V heads"), std::string::npos) << other_shape.errors;
  folder_.write("p.suture", "no projector");
  const SutureRun damaged = check(fusion);
  EXPECT_EQ(damaged.exit_code, 3) << damaged.output;
  const SutureRun none = check(transfer());
  EXPECT_EQ(none.exit_code, 3) << none.output;
  EXPECT_NE(none.errors.find("suture fit"), std::string::npos) << none.errors;
}

TEST_F(TransferSystemTest, AForcedProjectorIsNamedInEveryReply) {
  Projector projector = make_projector(other_);
  projector.evidence.reset();
  ASSERT_TRUE(write_projector(folder_.path() / "p.suture", projector));
  const std::string fusion = transfer(", projector = \"p.suture\"");
  const auto topology = [&](const std::string& keys) {
    return folder_
        .write("t.toml", text_topology({folder_.path(), master_.path(), other_.path(),
                                        "fusion = { " + keys + " }\n", ""}))
        .string();
  };
  const SutureRun refused = run_suture({"run", topology(fusion), "-p", kQuestion, "-n", "4"});
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_NE(refused.errors.find("no evidence"), std::string::npos) << refused.errors;
  const SutureRun forced = run_suture(
      {"--json", "run", topology(fusion + ", force = true"), "-p", kQuestion, "-n", "4"});
  ASSERT_EQ(forced.exit_code, 0) << forced.errors;
  const auto answer = forced.json().at("answers").at(0);
  EXPECT_NE(answer.at("forced").dump().find("no evidence"), std::string::npos) << answer;
}

}  // namespace
}  // namespace suture
