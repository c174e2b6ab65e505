// A slave of another shape beside its master, in processes, against the same computed in one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>

#include "actors/prompt_builder.h"
#include "tests/test_mapped_launch.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kQuestion = "why is it dry in the north";
constexpr const char* kDocument = "the rain in the south came down on the other hand";
constexpr const char* kProjector = "mode = \"project\", projector = \"p.suture\"";
constexpr float kGain = -0.5F;

class ProjectSystemTest : public MappedLaunchTest {
 protected:
  ProjectSystemTest() { folder_.write("document.txt", kDocument); }

  std::unique_ptr<Launch> start(const std::string& fusion, const TemporaryFile& slave,
                                const std::string& lines = "",
                                const std::string& file_lines = "") const {
    return start_text_launch({folder_.path(), master_.path(), slave.path(),
                              fmt::format("fusion = {{ {} }}\n{}", fusion, lines), file_lines});
  }
  static std::string with_gain(const std::string& more = "") {
    return fmt::format("{}, gain = {}{}", kProjector, kGain, more);
  }
  static Scoring score(Launch& launch) {
    return MappedLaunchTest::score(
        launch, {.text = kQuestion, .continuations = {" because of the wind", "x"}});
  }
  static Answer ask(
      Launch& launch, int64_t max_tokens,
      const std::function<void(std::string_view)>& on_text = [](std::string_view) {}) {
    const std::atomic<bool> never = false;
    AskOptions options;
    options.text = kQuestion;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    auto answer = launch.ask(options, on_text, never);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer.value_or(Answer());
  }
  static void set_gain(ForeignSegment& segment, const LanguageModel& master) {
    const ModelConfig& config = master.config();
    segment.log_gain.assign(static_cast<size_t>(int64_t{config.n_layers} * config.n_heads), kGain);
  }
  // What the slave reads of the document, and the master before the question.
  std::vector<int32_t> head(const std::vector<std::string>& documents) const {
    const auto model = load_model(master_.path());
    std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(*model);
    const ChatFormat format = ChatFormat::detect(tokenizer->vocabulary()).value();
    EncodingCache encodings(tokenizer, 8);
    return PromptBuilder(encodings, format).head("ab", documents);
  }
};

TEST_F(ProjectSystemTest, PromptsMeetMappedRowsOfTheSameText) {
  const Projector projector = make_projector(other_);
  const Scoring scoring = score(*start(with_gain(), other_));
  const auto master = load_model(master_.path());
  for (size_t i = 0; i < scoring.continuations.size(); ++i) {
    const ScoredContinuation& continuation = scoring.continuations[i];
    const std::vector<int32_t> ids = with(scoring.question_ids, continuation);
    MappedRows rows(other_.path(), *master, ids, &projector);
    ForeignSegment segment = rows.segment(0, std::ssize(ids) - 1);
    set_gain(segment, *master);
    const SequencePlan plan{.own = {{0, 0}}, .before = {}, .after = {segment}};
    EXPECT_EQ(logprobs(scoring)[i], logprobs_of(*master, plan, ids, std::ssize(continuation.tokens),
                                                std::ssize(head({}))));
  }
}

// Token by token the slave goes along with the answer.
TEST_F(ProjectSystemTest, AnswersMeetMappedRowsOfThemselves) {
  constexpr int64_t kTokens = 48;
  const Projector projector = make_projector(other_);
  const auto launch = start(with_gain(", lag = 2"), other_);
  const Answer answer = ask(*launch, kTokens);
  const std::vector<int32_t> question = score(*launch).question_ids;
  const auto master = load_model(master_.path());
  MappedRows rows(other_.path(), *master, question, &projector, kTokens);
  const auto plan_for = [&](int64_t position) {
    ForeignSegment segment = rows.segment(0, position - 1);
    segment.lag = 2;
    set_gain(segment, *master);
    return SequencePlan{.own = {{0, 0}}, .before = {}, .after = {segment}};
  };
  const std::vector<int32_t> expected =
      answer_beside(*master, rows, question, std::ssize(head({})), kTokens, plan_for);
  EXPECT_EQ(answer.token_ids, expected);
  EXPECT_EQ(ask(*start(with_gain(", lag = 2"), other_, "", "placement = \"in-process\""), kTokens)
                .token_ids,
            expected);
  EXPECT_NE(ask(*start(std::string(kProjector) + ", gain = -inf", other_), kTokens).token_ids,
            expected);
}

// The document is read, and mapped, once for all questions.
TEST_F(ProjectSystemTest, DocumentsAreMappedBeforeTheMastersQuestion) {
  for (const TemporaryFile* slave : {&other_, &stranger_}) {
    const Projector projector = make_projector(*slave);
    const auto launch =
        start(with_gain(", position = \"prefix\""), *slave, "documents = [\"document.txt\"]");
    const Scoring scoring = score(*launch);
    const std::vector<int32_t> own_head = head({});
    const std::vector<int32_t> read = head({kDocument});
    const auto shared = std::ssize(own_head);
    const auto length = std::ssize(read);
    ASSERT_GT(length, shared);
    const auto master = load_model(master_.path());
    MappedRows rows(slave->path(), *master, read, &projector);
    const auto common = std::ranges::mismatch(own_head, read).in1 - own_head.begin();
    ForeignSegment segment = rows.segment(common, length);
    segment.lag = 0;
    segment.position_offset = segment.rotation_shift = shared - common;
    set_gain(segment, *master);
    const SequencePlan plan{
        .own = {{0, 0}, {shared, length - common}}, .before = {segment}, .after = {}};
    for (size_t i = 0; i < scoring.continuations.size(); ++i) {
      const ScoredContinuation& continuation = scoring.continuations[i];
      EXPECT_EQ(logprobs(scoring)[i],
                logprobs_of(*master, plan, with(scoring.question_ids, continuation),
                            std::ssize(continuation.tokens)));
    }
    EXPECT_EQ(logprobs(score(*launch)), logprobs(scoring));
  }
}

// Whether the text comes at once or token by token, each token sees the same.
TEST_F(ProjectSystemTest, AStrangerFollowsTheTextByBytes) {
  make_projector(stranger_);
  const auto launch = start(with_gain(), stranger_);
  const Answer answer = ask(*launch, 40);
  EXPECT_EQ(ask(*launch, 40).token_ids, answer.token_ids);
  const auto in_process = start(with_gain(), stranger_, "", "placement = \"in-process\"");
  EXPECT_EQ(ask(*in_process, 40).token_ids, answer.token_ids);
  EXPECT_EQ(logprobs(score(*in_process)), logprobs(score(*launch)));
  EXPECT_NE(ask(*start(std::string(kProjector) + ", gain = -inf", stranger_), 40).token_ids,
            answer.token_ids);
}

TEST_F(ProjectSystemTest, AKilledSlaveIsLeftBehind) {
  make_projector(other_);
  const auto launch = start(with_gain(), other_, "", "restarts = 0");
  bool killed = false;
  const Answer answer = ask(*launch, 120, [&](std::string_view) {
    if (std::exchange(killed, true)) return;
    ::kill(launch->snapshot().processes.at(1).pid, SIGKILL);
    while (launch->snapshot().processes.at(1).state != ProcessState::kLost)
      std::this_thread::yield();
  });
  EXPECT_EQ(answer.token_ids.size(), 120u);
  ASSERT_EQ(answer.degraded.size(), 1u);
  EXPECT_EQ(answer.degraded[0].slave, "s");
  EXPECT_GT(answer.degraded[0].token, 0);
}

TEST_F(ProjectSystemTest, ASlaveThatWasRestartedTakesPartAgain) {
  make_projector(other_);
  const auto launch = start(with_gain(), other_);
  const Answer before = ask(*launch, 16);
  const pid_t first = launch->snapshot().processes.at(1).pid;
  ::kill(first, SIGKILL);
  while (launch->snapshot().processes.at(1).pid == first ||
         launch->snapshot().processes.at(1).pid == 0)
    std::this_thread::yield();
  const Answer after = ask(*launch, 16);
  EXPECT_TRUE(after.degraded.empty());
  EXPECT_EQ(after.token_ids, before.token_ids);
}

TEST_F(ProjectSystemTest, AutoTakesTheProjectorWhereModelsDiffer) {
  make_projector(other_);
  const auto check = [&](const std::string& fusion, const TemporaryFile& slave) {
    const auto path =
        folder_.write("t.toml", text_topology({folder_.path(), master_.path(), slave.path(),
                                               fmt::format("fusion = {{ {} }}\n", fusion), ""}));
    return run_suture({"--json", "check", path.string()});
  };
  const std::string open = "mode = \"auto\", projector = \"p.suture\"";
  const SutureRun mapped = check(open, other_);
  EXPECT_EQ(mapped.exit_code, 0) << mapped.errors;
  const auto slave = mapped.json().at("slaves").at(0);
  EXPECT_EQ(slave.at("mode"), "project");
  EXPECT_NE(slave.at("reason").dump().find("kv heads 2 and 4"), std::string::npos) << slave;
  EXPECT_EQ(slave.at("evidence").at(0).at("tokens"), 512);
  EXPECT_EQ(check(open, master_).json().at("slaves").at(0).at("mode"), "concat");
  const SutureRun neither = check("mode = \"auto\"", other_);
  EXPECT_EQ(neither.exit_code, 0) << neither.errors;
  EXPECT_EQ(neither.json().at("slaves").at(0).at("mode"), "text");
  const Answer answer = ask(*start(open + ", gain = -0.5", other_), 16);
  EXPECT_EQ(answer.token_ids, ask(*start(with_gain(), other_), 16).token_ids);
}

}  // namespace
}  // namespace suture
