// Conversations of a real model: what a turn reads and what it takes over, and `suture chat` at a
// terminal and through a pipe.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>

#include "actors/launch.h"
#include "base/test_folder.h"
#include "base/unique_fd.h"
#include "launcher/manifest.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";
constexpr const char* kFirst = "Name three large rivers.";
constexpr const char* kSecond = "Which of them is the longest?";

class ChatRealTest : public testing::Test {
 protected:
  void SetUp() override {
    model_ = cached_model_path(*find_model(kModel), model_cache_folder());
    if (!std::filesystem::exists(model_))
      GTEST_SKIP() << model_ << " is not there: suture models pull " << kModel;
    ::setenv("XDG_STATE_HOME", folder_.path().c_str(), 1);
    topology_ = folder_.write("one.toml", R"([bus]
max_seq_len = 1024
max_sequences = 2
[[model]]
name = "master"
role = "master"
path = "smollm2-135m-instruct"
)");
  }

  // A master, a reader of a document and an aligned twin, or the master alone.
  LaunchSpec spec(Placement placement, bool with_slaves) const {
    LaunchSpec spec;
    spec.topology_path = "test.toml";
    spec.placement = placement;
    spec.max_seq_len = 1024;
    spec.max_sequences = 2;
    spec.models.resize(with_slaves ? 3 : 1);
    spec.models[0] = {.name = "master", .role = Role::kMaster, .path = model_};
    if (!with_slaves) return spec;
    spec.models[1] = {.name = "reader", .role = Role::kSlave, .path = model_};
    spec.models[1].documents = {
        folder_.write("log.txt", "The ferry Aurelia carried 212 passengers over the river Sola.")};
    spec.models[1].fusion.position = SlavePosition::kPrefix;
    spec.models[2] = {.name = "twin", .role = Role::kSlave, .path = model_};
    spec.models[2].fusion.gain = -1.0;
    return spec;
  }

  static std::unique_ptr<Launch> start(const LaunchSpec& spec) {
    LaunchOptions options;
    options.program = SUTURE_BINARY;
    auto launch = Launch::start(spec, options);
    EXPECT_TRUE(launch.has_value()) << launch.error().message();
    return std::move(*launch);
  }

  static Answer ask(Launch& launch, uint64_t conversation, const std::string& text,
                    std::vector<std::string> stop = {}) {
    const std::atomic<bool> never = false;
    AskOptions options{.text = text, .max_tokens = 24, .stop = std::move(stop)};
    options.conversation = conversation;
    auto answer = launch.ask(
        options, [](std::string_view) {}, never);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer.value_or(Answer());
  }

  static uint64_t open(Launch& launch, const std::vector<ChatTurn>& history = {}) {
    auto opened = launch.open_conversation(history);
    EXPECT_TRUE(opened.has_value()) << opened.error().message();
    return opened->id;
  }

  TestFolder folder_;
  std::filesystem::path model_;
  std::filesystem::path topology_;
};

TEST_F(ChatRealTest, ATurnReadsOnlyWhatIsNewAndSaysWhatReadingItAllWouldSay) {
  const auto launch = start(spec(Placement::kInProcess, false));
  const uint64_t chat = open(*launch);
  const Answer first = ask(*launch, chat, kFirst);
  const Answer second = ask(*launch, chat, kSecond);
  const ProcessFigures& master = second.figures.at(0);
  // What was read and generated before is there; new are the end of the answer and the question.
  EXPECT_EQ(master.reused_tokens, first.prompt_tokens + std::ssize(first.token_ids));
  EXPECT_EQ(master.prompt_tokens, second.prompt_tokens - master.reused_tokens);
  EXPECT_LT(master.prompt_tokens, 25);
  EXPECT_GT(master.reused_tokens, 40);

  // The same conversation read in one piece.
  const uint64_t whole = open(*launch, {{kFirst, first.text}});
  const Answer again = ask(*launch, whole, kSecond);
  EXPECT_EQ(again.prompt_tokens, second.prompt_tokens);
  EXPECT_GT(again.figures.at(0).prompt_tokens, master.prompt_tokens);
  EXPECT_EQ(again.token_ids, second.token_ids);

  // Other conversations go on beside it, and a closed one is gone.
  EXPECT_EQ(ask(*launch, 0, kFirst).token_ids, first.token_ids);
  EXPECT_GT(ask(*launch, chat, "Thanks.").figures.at(0).reused_tokens, master.reused_tokens);
  launch->close_conversation(chat);
  AskOptions closed{.text = kSecond};
  closed.conversation = chat;
  const auto refused = launch->ask(
      closed, [](std::string_view) {}, false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
}

TEST_F(ChatRealTest, SlavesKeepTheirKvTooAndPlacementChangesNothing) {
  std::vector<std::vector<int32_t>> answers;
  for (const Placement placement : {Placement::kInProcess, Placement::kProcesses}) {
    const auto launch = start(spec(placement, true));
    const uint64_t chat = open(*launch);
    answers.push_back(ask(*launch, chat, "Which ferry is it?").token_ids);
    const Answer second = ask(*launch, chat, "How many passengers?");
    answers.push_back(second.token_ids);
    ASSERT_EQ(second.figures.size(), 2u);  // the reader had nothing to do
    const ProcessFigures& twin = second.figures.at(1);
    EXPECT_EQ(twin.name, "twin");
    EXPECT_EQ(twin.reused_tokens, second.figures.at(0).reused_tokens);
    EXPECT_EQ(twin.prompt_tokens, second.figures.at(0).prompt_tokens);
    EXPECT_TRUE(second.degraded.empty());
  }
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_EQ(answers[1], answers[3]);
}

TEST_F(ChatRealTest, AStopStringEndsTheAnswerAndTheConversationGoesOnFromWhatWasShown) {
  const auto launch = start(spec(Placement::kInProcess, true));
  const Answer whole = ask(*launch, 0, kFirst);
  ASSERT_GT(whole.text.size(), 12u);
  const std::string stop = whole.text.substr(whole.text.size() / 2, 3);
  const size_t at = whole.text.find(stop);
  const uint64_t chat = open(*launch);
  const Answer stopped = ask(*launch, chat, kFirst, {stop});
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, at));
  EXPECT_LT(stopped.token_ids.size(), whole.token_ids.size());
  const Answer next = ask(*launch, chat, kSecond);
  // Tokens that were not shown are not taken over.
  EXPECT_EQ(next.figures.at(0).reused_tokens,
            stopped.prompt_tokens + std::ssize(stopped.token_ids));
}

TEST_F(ChatRealTest, AConversationThatIsFullSaysWhatToDo) {
  const auto launch = start(spec(Placement::kInProcess, false));
  const uint64_t chat = open(*launch);
  ask(*launch, chat, kFirst);
  std::string novel;
  for (int i = 0; i < 400; ++i) novel += "word word word ";
  AskOptions options{.text = novel, .max_tokens = 24};
  options.conversation = chat;
  const auto full = launch->ask(
      options, [](std::string_view) {}, false);
  ASSERT_FALSE(full.has_value());
  EXPECT_NE(full.error().remedy.find("/clear"), std::string::npos) << full.error().message();
  EXPECT_GT(ask(*launch, chat, kSecond).figures.at(0).reused_tokens, 40);  // it is as it was
  EXPECT_FALSE(launch->open_conversation({{novel, novel}}).has_value());
}

TEST_F(ChatRealTest, LinesOfAPipeAreATurnEach) {
  const std::string file = (folder_.path() / "saved.json").string();
  const SutureRun run = run_suture({"chat", topology_.string(), "-n", "12", "--json"},
                                   std::string(kFirst) + "\n/nonsense\n" + kSecond + "\n/save " +
                                       file + "\n/load " + file + "\n\"\"\"And\nnow?\"\"\"\n");
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto json = run.json();
  ASSERT_EQ(json["answers"].size(), 3u);
  EXPECT_GT(json["answers"][1]["processes"][0]["reused_tokens"], 40);
  EXPECT_EQ(json["answers"][2]["question"], "And\nnow?");
  // After /load all is read again, but for the head.
  EXPECT_GT(json["answers"][2]["processes"][0]["prompt_tokens"], 40);
  EXPECT_EQ(json["transcript"]["turns"].size(), 3u);
  EXPECT_NE(run.errors.find("/nonsense is no command"), std::string::npos);
  EXPECT_NE(run.errors.find("tokens read"), std::string::npos);

  const SutureRun plain =
      run_suture({"chat", topology_.string(), "-n", "12"}, std::string(kFirst) + "\n");
  EXPECT_EQ(plain.exit_code, 0) << plain.errors;
  EXPECT_EQ(plain.output, json["answers"][0]["text"].get<std::string>() + "\n");
}

// `suture chat` with a keyboard and a screen.
class Terminal {
 public:
  // Its answers are as long as they may be: one that is stopped must not have ended by itself.
  explicit Terminal(const std::filesystem::path& topology) {
    int screen = -1;
    const std::string file = topology.string();
    pid_ = ::forkpty(&screen, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::execl(SUTURE_BINARY, SUTURE_BINARY, "chat", file.c_str(), "-n", "900", "--ignore-eos",
              nullptr);
      ::_exit(127);
    }
    screen_.reset(screen);
  }
  ~Terminal() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const {
    EXPECT_EQ(::write(screen_.get(), keys.data(), keys.size()), std::ssize(keys));
  }
  // Reads until the screen has shown this text after what was found before.
  bool shows(const std::string& text) {
    while (true) {
      if (const size_t at = seen_.find(text, from_); at != std::string::npos) {
        from_ = at + text.size();
        return true;
      }
      pollfd poll_fd{screen_.get(), POLLIN, 0};
      std::array<char, 4096> bytes{};
      if (::poll(&poll_fd, 1, 60'000) != 1) return false;
      const ssize_t got = ::read(screen_.get(), bytes.data(), bytes.size());
      if (got <= 0) return false;
      seen_.append(bytes.data(), static_cast<size_t>(got));
    }
  }
  int wait() {
    shows("nothing that a chat would say");  // up to its end
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& seen() const { return seen_; }

 private:
  pid_t pid_ = 0;
  UniqueFd screen_;
  std::string seen_;
  size_t from_ = 0;
};

TEST_F(ChatRealTest, CtrlCStopsTheAnswerAndNotTheProgram) {
  Terminal terminal(topology_);
  ASSERT_TRUE(terminal.shows("> ")) << terminal.seen();
  terminal.type("Write a long story about a fox, of ten chapters.\r");
  ASSERT_TRUE(terminal.shows("chapters.\r\n")) << terminal.seen();
  ASSERT_TRUE(terminal.shows("fox")) << terminal.seen();  // in the middle of the answer
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("[stopped]")) << terminal.seen();
  ASSERT_TRUE(terminal.shows("> ")) << terminal.seen();
  terminal.type("half a line\x03");
  ASSERT_TRUE(terminal.shows("Ctrl-C again")) << terminal.seen();
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.shows("1 questions")) << terminal.seen();
  ASSERT_TRUE(terminal.shows("> ")) << terminal.seen();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("Ctrl-C again")) << terminal.seen();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();

  // The next session has the history of this one.
  Terminal next(topology_);
  ASSERT_TRUE(next.shows("> ")) << next.seen();
  next.type("\x10");  // Ctrl-P
  ASSERT_TRUE(next.shows("/stats")) << next.seen();
  next.type("\x15\x04");  // clear the line, Ctrl-D
  EXPECT_EQ(next.wait(), 0) << next.seen();
}

}  // namespace
}  // namespace suture
