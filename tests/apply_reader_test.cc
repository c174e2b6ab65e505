// A projector that the master applies (apply = "reader") gives what it gives where the slave does
// (apply = "writer"), to the last bit.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "tests/test_mapped_launch.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kQuestion =
    "the rain in the north came down on the other hand of the hill, so why is it dry there";
constexpr const char* kProject = "mode = \"project\", gain = -0.5";
constexpr const char* kTransfer = "mode = \"transfer\", sink = 4, reread = 8";

class ApplyReaderTest : public MappedLaunchTest {
 protected:
  ApplyReaderTest() {
    folder_.write("document.txt", "the rain in the south came down on the other hand");
  }

  std::unique_ptr<Launch> start(const std::string& apply, const std::string& fusion,
                                const TemporaryFile& slave, const std::string& lines = "",
                                const std::string& file_lines = "", int64_t max_seq_len = 256) {
    make_projector(slave);
    return start_text_launch({.folder = folder_.path(),
                              .master = master_.path(),
                              .slave = slave.path(),
                              .slave_lines = fmt::format(
                                  "fusion = {{ {}, projector = \"p.suture\", apply = \"{}\" }}\n{}",
                                  fusion, apply, lines),
                              .file_lines = file_lines,
                              .max_seq_len = max_seq_len});
  }
  static Scoring score(Launch& launch, const std::string& text = kQuestion,
                       const SlaveTexts& texts = {}) {
    return MappedLaunchTest::score(launch,
                                   {.text = text,
                                    .continuations = {" because of the wind and the hill", "x"},
                                    .slave_texts = texts});
  }
  static Answer ask(
      Launch& launch, int64_t max_tokens, const std::string& text = kQuestion,
      uint64_t conversation = 0,
      const std::function<void(std::string_view)>& on_text = [](std::string_view) {}) {
    const std::atomic<bool> never = false;
    AskOptions options;
    options.text = text;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    options.conversation = conversation;
    auto answer = launch.ask(options, on_text, never);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer.value_or(Answer());
  }
  static void kill_slave(Launch& launch) {
    ::kill(launch.snapshot().processes.at(1).pid, SIGKILL);
    while (launch.snapshot().processes.at(1).state != ProcessState::kLost)
      std::this_thread::yield();
  }
};

// Prompts, and token by token what follows them, aligned and transferred.
TEST_F(ApplyReaderTest, AnswersAreThoseOfAWriter) {
  for (const char* fusion : {kProject, "mode = \"project\", gain = -0.25, lag = 3", kTransfer})
    for (const TemporaryFile* slave : {&other_, &stranger_}) {
      SCOPED_TRACE(fmt::format("{} {}", fusion, slave == &stranger_));
      const auto writer = start("writer", fusion, *slave);
      const auto reader = start("reader", fusion, *slave);
      EXPECT_EQ(logprobs(score(*reader)), logprobs(score(*writer)));
      const Answer answer = ask(*reader, 100);
      const Answer expected = ask(*writer, 100);
      EXPECT_EQ(answer.token_ids, expected.token_ids);
      EXPECT_TRUE(answer.degraded.empty());
      // Each says where the mapping was done.
      EXPECT_GT(answer.figures.at(0).projection_seconds, 0);
      EXPECT_EQ(answer.figures.at(1).projection_seconds, 0);
      EXPECT_EQ(expected.figures.at(0).projection_seconds, 0);
      EXPECT_GT(expected.figures.at(1).projection_seconds, 0);
    }
}

TEST_F(ApplyReaderTest, SoAreThoseOfOneProcess) {
  const std::string in_process = "placement = \"in-process\"";
  for (const char* fusion : {kProject, kTransfer}) {
    const auto writer = start("writer", fusion, stranger_);
    const auto reader = start("reader", fusion, stranger_, "", in_process);
    EXPECT_EQ(logprobs(score(*reader)), logprobs(score(*writer)));
    EXPECT_EQ(ask(*reader, 40).token_ids, ask(*writer, 40).token_ids);
  }
}

// Several chunks of a prompt: the master maps what the slave has read so far.
TEST_F(ApplyReaderTest, LongTextsAreMappedInChunks) {
  std::string text;
  for (int i = 0; i < 16; ++i) text += fmt::format("{} {}\n", kQuestion, i);
  for (const auto& [fusion, slave] : {std::pair{kProject, &stranger_}, {kTransfer, &other_}}) {
    const auto writer = start("writer", fusion, *slave, "", "", 2048);
    const auto reader = start("reader", fusion, *slave, "", "", 2048);
    const Scoring scoring = score(*reader, text);
    EXPECT_GT(scoring.question_ids.size(), 1100u);
    EXPECT_EQ(logprobs(scoring), logprobs(score(*writer, text)));
    EXPECT_EQ(ask(*reader, 16, text).token_ids, ask(*writer, 16, text).token_ids);
  }
}

// Other texts than the master's: documents, and the control that reads something else.
TEST_F(ApplyReaderTest, OtherTextsAreThoseOfAWriter) {
  const std::string documents = "documents = [\"document.txt\"]";
  const std::string prefix = std::string(kProject) + ", position = \"prefix\"";
  const SlaveTexts others[] = {
      {}, {.documents = {{.slave = "s", .texts = {"it is dry in the other north"}}}}};
  for (const TemporaryFile* slave : {&other_, &stranger_}) {
    const auto writer = start("writer", prefix, *slave, documents);
    const auto reader = start("reader", prefix, *slave, documents);
    for (const SlaveTexts& texts : others)
      EXPECT_EQ(logprobs(score(*reader, kQuestion, texts)),
                logprobs(score(*writer, kQuestion, texts)));
    EXPECT_EQ(ask(*reader, 40).token_ids, ask(*writer, 40).token_ids);
  }
  const SlaveTexts control{.aligned_text = "how far is it to the sea"};
  for (const char* fusion : {kProject, kTransfer}) {
    const auto writer = start("writer", fusion, other_);
    const auto reader = start("reader", fusion, other_);
    EXPECT_EQ(logprobs(score(*reader, kQuestion, control)),
              logprobs(score(*writer, kQuestion, control)));
    EXPECT_NE(logprobs(score(*reader, kQuestion, control)), logprobs(score(*reader)));
  }
}

// Rows of earlier answers keep the kernels of generated tokens, whatever was kept of them.
TEST_F(ApplyReaderTest, ConversationsAreThoseOfAWriter) {
  for (const char* fusion : {kProject, kTransfer})
    for (const TemporaryFile* slave : {&other_, &stranger_}) {
      const auto writer = start("writer", fusion, *slave);
      const auto reader = start("reader", fusion, *slave);
      std::vector<std::vector<int32_t>> answers;
      for (Launch* launch : {writer.get(), reader.get()}) {
        const uint64_t id = launch->open_conversation({})->id;
        answers.push_back(ask(*launch, 24, kQuestion, id).token_ids);
        answers.push_back(ask(*launch, 24, "and when does it end", id).token_ids);
        const uint64_t other = launch->open_conversation({{kQuestion, "the hill keeps it"}})->id;
        answers.push_back(ask(*launch, 24, "and when does it end", other).token_ids);
      }
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(answers[3 + i], answers[i]) << i;
    }
}

TEST_F(ApplyReaderTest, CompanyChangesNoAnswer) {
  const std::vector<std::string> texts = {kQuestion, "how far is it to the sea", "why"};
  for (const char* fusion : {kProject, kTransfer}) {
    const auto writer = start("writer", fusion, stranger_);
    const auto reader = start("reader", fusion, stranger_);
    std::vector<std::future<Answer>> answers;
    for (const std::string& text : texts)
      answers.push_back(
          std::async(std::launch::async, [&reader, &text] { return ask(*reader, 60, text); }));
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(answers[i].get().token_ids, ask(*writer, 60, texts[i]).token_ids);
  }
}

// Until it was lost the answer is that of both, and afterwards that of the master without it.
TEST_F(ApplyReaderTest, AKilledSlaveIsLeftBehind) {
  for (const char* fusion : {kProject, kTransfer}) {
    const auto reader = start("reader", fusion, other_, "", "restarts = 0");
    const std::vector<int32_t> whole = ask(*reader, 100).token_ids;
    bool killed = false;
    const Answer answer = ask(*reader, 100, kQuestion, 0, [&](std::string_view) {
      if (!std::exchange(killed, true)) kill_slave(*reader);
    });
    ASSERT_EQ(answer.token_ids.size(), 100u);
    ASSERT_EQ(answer.degraded.size(), 1u);
    EXPECT_EQ(answer.degraded[0].slave, "s");
    const int64_t token = answer.degraded[0].token;
    ASSERT_GT(token, 0);
    ASSERT_LT(token, 100);
    EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + token, answer.token_ids.begin()));
    const Answer next = ask(*reader, 40);
    ASSERT_EQ(next.degraded.size(), 1u);
    const auto silent = start("reader", "mode = \"project\", gain = -inf", other_);
    EXPECT_EQ(next.token_ids, ask(*silent, 40).token_ids);
  }
}

TEST_F(ApplyReaderTest, OnFailureFailEndsTheAnswer) {
  const auto reader = start("reader", kProject, other_, "on_failure = \"fail\"", "restarts = 0");
  const std::atomic<bool> never = false;
  AskOptions options;
  options.text = kQuestion;
  options.max_tokens = 120;
  options.ignore_eos = true;
  bool killed = false;
  const auto answer = reader->ask(
      options,
      [&](std::string_view) {
        if (!std::exchange(killed, true)) kill_slave(*reader);
      },
      never);
  ASSERT_FALSE(answer.has_value());
  EXPECT_NE(answer.error().what.find("lost at token"), std::string::npos)
      << answer.error().message();
}

// The choice of the mode leaves the choice of the process as it is.
TEST_F(ApplyReaderTest, AutoTakesTheProjectorToTheMaster) {
  make_random_projector(other_.path(), master_.path(), folder_.path() / "p.suture");
  const auto path = folder_.write(
      "t.toml", text_topology({folder_.path(), master_.path(), other_.path(),
                               "fusion = { mode = \"auto\", projector = \"p.suture\", gain = -0.5, "
                               "apply = \"reader\" }\n"}));
  const SutureRun run =
      run_suture({"--json", "run", path.string(), "-p", kQuestion, "-n", "40", "--ignore-eos"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto answer = run.json().at("answers").at(0);
  EXPECT_EQ(answer.at("token_ids"), ask(*start("writer", kProject, other_), 40).token_ids);
  EXPECT_GT(answer.at("processes").at(0).at("projection_s"), 0);
  EXPECT_EQ(answer.at("processes").at(1).at("projection_s"), 0);
}

}  // namespace
}  // namespace suture
