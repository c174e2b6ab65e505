#include "launcher/attach.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "base/test_folder.h"
#include "launcher/answer_json.h"
#include "launcher/attach_client.h"
#include "launcher/attach_socket.h"
#include "launcher/line_socket.h"
#include "launcher/snapshot_json.h"

namespace suture {
namespace {

class AttachTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }

  static Result<Answer> ask(const Asker& asker, const std::string& text, std::string* pieces) {
    const std::atomic<bool> never = false;
    return asker(
        {text, 8, {}}, [pieces](std::string_view piece) { *pieces += piece; }, never);
  }

  // A client that the test drives by hand.
  static LineSocket connect(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = attach_socket_path(name).value().string();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return LineSocket(std::move(fd));
  }

  TestFolder folder_;
};

Result<Answer> echo(const AskOptions& options, const std::function<void(std::string_view)>& on_text,
                    const std::atomic<bool>&) {
  if (options.text == "fail") return fail(ErrorCode::kLost, "gone", "master", "again");
  on_text(options.text);
  Answer answer;
  answer.text = options.text;
  return answer;
}

LaunchSnapshot look() {
  LaunchSnapshot snapshot;
  snapshot.requests = 3;
  snapshot.processes.resize(2);
  snapshot.processes[1].name = "slave";
  return snapshot;
}

AttachServices watched() {
  AttachServices services{echo};
  services.watch = look;
  return services;
}

TEST_F(AttachTest, ASnapshotIsAnsweredBesideQuestions) {
  const auto server = AttachServer::start("x", watched());
  ASSERT_TRUE(server.has_value()) << server.error().message();
  auto fd = connect_to_launch("x");
  ASSERT_TRUE(fd.has_value());
  LineSocket socket(std::move(*fd));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(socket.send({{"snapshot", true}}).has_value());
    const auto line = socket.receive(10'000);
    ASSERT_TRUE(line.has_value() && line->has_value());
    const auto snapshot = snapshot_from_json((*line)->at("snapshot"));
    ASSERT_TRUE(snapshot.has_value()) << snapshot.error().message();
    EXPECT_EQ(snapshot->requests, 3);
    EXPECT_EQ(snapshot->processes[1].name, "slave");
  }
}

TEST_F(AttachTest, OnlyLaunchesThatLiveAreListed) {
  EXPECT_TRUE(running_launches().value().empty());
  const auto y = AttachServer::start("y", watched());
  const auto x = AttachServer::start("x", watched());
  folder_.write("suture/dead.sock", "");
  EXPECT_EQ(running_launches().value(), (std::vector<std::string>{"x", "y"}));
}

TEST_F(AttachTest, QuestionsAnswersAndErrorsPassThrough) {
  const auto server = AttachServer::start("x", {echo});
  ASSERT_TRUE(server.has_value()) << server.error().message();
  const auto asker = attach("x");
  ASSERT_TRUE(asker.has_value());
  std::string pieces;
  const auto answer = ask(asker->ask, "Grüße", &pieces);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->text, "Grüße");
  EXPECT_EQ(pieces, "Grüße");
  const auto failure = ask(asker->ask, "fail", &pieces);
  ASSERT_FALSE(failure.has_value());
  EXPECT_EQ(failure.error().code, ErrorCode::kLost);
  EXPECT_EQ(failure.error().remedy, "again");
}

TEST_F(AttachTest, TheLaunchSaysHowItAnswersByDefault) {
  AskOptions defaults;
  defaults.max_tokens = 11;
  defaults.sampling.min_p = 0.25f;
  defaults.stop = {"END"};
  const auto server = AttachServer::start("x", {echo, defaults});
  ASSERT_TRUE(server.has_value());
  const auto attached = attach("x");
  ASSERT_TRUE(attached.has_value()) << attached.error().message();
  EXPECT_EQ(attached->defaults.max_tokens, 11);
  EXPECT_EQ(attached->defaults.sampling, defaults.sampling);
  EXPECT_EQ(attached->defaults.stop, defaults.stop);
}

TEST_F(AttachTest, ALiveNameIsTakenAndADeadOneFree) {
  {
    const auto server = AttachServer::start("x", {echo});
    ASSERT_TRUE(server.has_value());
    EXPECT_EQ(AttachServer::start("x", {echo}).error().code, ErrorCode::kBusy);
    EXPECT_TRUE(AttachServer::start("y", {echo}).has_value());
  }
  EXPECT_EQ(attach("x").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "suture"));
  EXPECT_TRUE(AttachServer::start("x", {echo}).has_value());
}

TEST_F(AttachTest, MalformedRequestsAreAnsweredAndDisturbNobody) {
  const auto server = AttachServer::start("x", {echo});
  ASSERT_TRUE(server.has_value());
  for (const char* line : {"nonsense\n", "[1]\n", "{\"text\": 3}\n"}) {
    LineSocket client = connect("x");
    ASSERT_EQ(::send(client.fd(), line, std::strlen(line), 0), std::ssize(std::string(line)));
    const auto reply = client.receive(-1);
    ASSERT_TRUE(reply.has_value() && reply->has_value()) << line;
    EXPECT_EQ((**reply)["error"]["code"], "corrupt") << line;
  }
  std::string pieces;
  EXPECT_TRUE(ask(attach("x")->ask, "still here", &pieces).has_value());
}

TEST_F(AttachTest, AClientThatHangsUpCancelsItsRequest) {
  std::promise<void> started;
  std::promise<void> ended;
  const Asker waits = [&](const AskOptions&, const auto&,
                          const std::atomic<bool>& cancelled) -> Result<Answer> {
    started.set_value();
    while (!cancelled.load()) std::this_thread::yield();
    ended.set_value();
    return fail(ErrorCode::kCancelled, "cancelled");
  };
  const auto server = AttachServer::start("x", {waits});
  ASSERT_TRUE(server.has_value());
  {
    const LineSocket client = connect("x");
    ASSERT_TRUE(client.send(to_json(AskOptions{.text = "hi"})));
    started.get_future().wait();
  }
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
}

TEST_F(AttachTest, EveryConnectionIsAClientOfItsOwn) {
  std::vector<uint64_t> clients;
  const Asker notes = [&](const AskOptions& options, const auto& on_text, const auto& cancelled) {
    clients.push_back(options.client);  // one question at a time
    return echo(options, on_text, cancelled);
  };
  const auto server = AttachServer::start("x", {notes});
  ASSERT_TRUE(server.has_value());
  for (int i = 0; i < 2; ++i) {
    LineSocket client = connect("x");
    for (int question = 0; question < 2; ++question) {
      ASSERT_TRUE(client.send(to_json(AskOptions{.text = "hi"})));
      while (!client.receive(-1).value()->contains("answer")) {
      }
    }
  }
  ASSERT_EQ(clients.size(), 4u);
  EXPECT_NE(clients[0], 0u);
  EXPECT_EQ(clients[0], clients[1]);
  EXPECT_EQ(clients[2], clients[3]);
  EXPECT_NE(clients[0], clients[2]);
}

TEST_F(AttachTest, AConversationLivesAsLongAsItsClient) {
  std::mutex mutex;
  std::vector<std::string> log;
  std::promise<void> closed;
  const auto note = [&](std::string text) {
    const std::lock_guard lock(mutex);
    log.push_back(std::move(text));
  };
  AttachServices services{echo};
  services.ask = [&](const AskOptions& options, const auto& on_text, const auto& cancelled) {
    note(options.text + "@" + std::to_string(options.conversation));
    return echo(options, on_text, cancelled);
  };
  services.open_conversation =
      [&](const std::vector<ChatTurn>& history) -> Result<OpenedConversation> {
    if (history.size() > 1) return fail(ErrorCode::kInvalidArgument, "too long", "conversation");
    note("open");
    return OpenedConversation{7 + history.size(), 10 * std::ssize(history)};
  };
  services.close_conversation = [&](uint64_t id) {
    note("close " + std::to_string(id));
    if (id == 8) closed.set_value();
  };
  const auto server = AttachServer::start("x", services);
  ASSERT_TRUE(server.has_value());
  {
    const auto chat = attach_chat("x");
    ASSERT_TRUE(chat.has_value()) << chat.error().message();
    const std::atomic<bool> never = false;
    const auto ignore = [](std::string_view) {};
    EXPECT_TRUE((*chat)->ask({.text = "one"}, ignore, never).has_value());
    EXPECT_EQ((*chat)->restart({{"q", "a"}, {"q", "a"}}).error().where, "conversation");
    EXPECT_EQ((*chat)->restart({{"q", "a"}}).value(), 10);
    EXPECT_TRUE((*chat)->ask({.text = "two"}, ignore, never).has_value());
  }
  ASSERT_EQ(closed.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(log,
            (std::vector<std::string>{"open", "one@7", "open", "close 7", "two@8", "close 8"}));
}

TEST_F(AttachTest, AClientCanStopItsAnswerAndAskOn) {
  std::promise<void> started;
  AttachServices services;
  services.ask = [&](const AskOptions& options, const auto& on_text,
                     const std::atomic<bool>& cancelled) -> Result<Answer> {
    if (options.text != "long") return echo(options, on_text, cancelled);
    on_text("so far");
    started.set_value();
    while (!cancelled.load()) std::this_thread::yield();
    Answer answer;
    answer.text = "so far";
    answer.reason = FinishReason::kCancelled;
    return answer;
  };
  services.open_conversation = [](const auto&) { return OpenedConversation{1, 0}; };
  services.close_conversation = [](uint64_t) {};
  const auto server = AttachServer::start("x", services);
  ASSERT_TRUE(server.has_value());
  const auto chat = attach_chat("x");
  ASSERT_TRUE(chat.has_value());
  std::atomic<bool> cancelled = false;
  auto stopping = std::async(std::launch::async, [&] {
    started.get_future().wait();
    cancelled.store(true);
  });
  const auto ignore = [](std::string_view) {};
  const auto answer = (*chat)->ask({.text = "long"}, ignore, cancelled);
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(answer->reason, FinishReason::kCancelled);
  EXPECT_EQ(answer->text, "so far");
  const auto next = (*chat)->ask({.text = "next"}, ignore, false);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  EXPECT_EQ(next->text, "next");
}

TEST_F(AttachTest, AFolderThatOthersMayEnterIsRefused) {
  std::filesystem::create_directory(folder_.path() / "suture");
  ::chmod((folder_.path() / "suture").c_str(), 0755);
  const auto server = AttachServer::start("x", {echo});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, ErrorCode::kPermission);
}

TEST_F(AttachTest, NamesThatAreNoFileNamesAreRefused) {
  for (const char* name : {"", ".", "../x", "a/b", "a b", "ä"})
    EXPECT_EQ(AttachServer::start(name, {echo}).error().code, ErrorCode::kInvalidArgument) << name;
  EXPECT_FALSE(attach_socket_path(std::string(64, 'a')).has_value());
}

}  // namespace
}  // namespace suture
