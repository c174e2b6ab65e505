// What strangers and faulty clients send to a launch's socket, and that nobody else notices.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <future>
#include <map>
#include <optional>

#include "base/test_folder.h"
#include "base/test_fuzz.h"
#include "base/test_process_use.h"
#include "base/test_user.h"
#include "launcher/answer_json.h"
#include "launcher/attach.h"
#include "launcher/attach_client.h"
#include "launcher/attach_socket.h"
#include "launcher/line_socket.h"

namespace suture {
namespace {

constexpr size_t kLongAnswer = 8 << 20;  // far more than a socket holds

Result<Answer> answer_to(const AskOptions& options,
                         const std::function<void(std::string_view)>& on_text,
                         const std::atomic<bool>&) {
  const std::string piece = options.text == "long" ? std::string(kLongAnswer / 8, 'x') : "";
  for (int i = 0; i < 8; ++i) on_text(piece);
  Answer answer;
  answer.text = options.text;
  return answer;
}

class AttachIntruderTest : public testing::Test {
 protected:
  AttachIntruderTest() {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    AttachServices services{answer_to};
    services.open_conversation = [](const std::vector<ChatTurn>& turns) -> OpenedConversation {
      return {1, std::ssize(turns)};
    };
    services.close_conversation = [](uint64_t) {};
    services.watch = [] { return LaunchSnapshot(); };
    server_ = AttachServer::start("x", services).value();
    before_ = process_use();
  }

  static UniqueFd connect() { return connect_to_launch("x").value(); }
  static void send_raw(int fd, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;  // hung up on
      sent += static_cast<size_t>(n);
    }
  }
  // The code of the error that a line is answered with; "" for another answer.
  static std::string refusal_of(const std::string& line) {
    LineSocket client(connect());
    send_raw(client.fd(), line + "\n");
    const auto reply = client.receive(60'000);
    if (!reply || !reply->has_value()) return "nothing came";
    return (*reply)->contains("error") ? (**reply)["error"]["code"].get<std::string>() : "";
  }
  static void expect_service() {
    const auto asker = attach("x");
    ASSERT_TRUE(asker.has_value()) << asker.error().message();
    const auto answer = asker->ask(
        {"still here", 8, {}}, [](std::string_view) {}, false);
    ASSERT_TRUE(answer.has_value()) << answer.error().message();
    EXPECT_EQ(answer->text, "still here");
  }
  void expect_nothing_left() const { EXPECT_LE(settled_use(before_), before_); }

  TestFolder folder_;
  std::unique_ptr<AttachServer> server_;
  ProcessUse before_;
};

TEST_F(AttachIntruderTest, AnotherUserIsKeptOutTwice) {
  if (!can_play_another_user()) GTEST_SKIP() << "only root can play another user";
  const std::filesystem::path path = attach_socket_path("x").value();
  const auto address = socket_address(path).value();
  const auto try_connect = [&](int fd) {
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  as_another_user([&] {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_FALSE(try_connect(fd.get()));
    EXPECT_EQ(errno, EACCES);
  });
  // Even if somebody has opened folder and socket for all.
  for (const auto& opened : {folder_.path(), path.parent_path(), path})
    ASSERT_EQ(::chmod(opened.c_str(), 0777), 0);
  as_another_user([&] {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(try_connect(fd.get()));
    char byte = 0;
    EXPECT_EQ(::recv(fd.get(), &byte, 1, 0), 0);
  });
  ASSERT_EQ(::chmod(path.parent_path().c_str(), 0700), 0);
  expect_service();
}

TEST_F(AttachIntruderTest, MalformedLinesAreRefused) {
  EXPECT_EQ(refusal_of("\xff\xfe"), "corrupt");
  EXPECT_EQ(refusal_of(R"({"text": "\ud800"})"), "corrupt");
  EXPECT_EQ(refusal_of("{\"text\": \"\xc3\x28\"}"), "corrupt");
  EXPECT_EQ(refusal_of(std::string(1 << 20, '[')), "corrupt");
  EXPECT_EQ(refusal_of(R"({"conversation": {"question": 1}})"), "corrupt");
  EXPECT_EQ(refusal_of(R"({"conversation": [{"question": "a", "answer": 1}]})"), "corrupt");
  EXPECT_EQ(refusal_of(std::string((4 << 20) + 1, ' ')), "corrupt");
  expect_service();
  expect_nothing_left();
}

TEST_F(AttachIntruderTest, ValuesThatAFieldCannotHoldAreRefused) {
  const nlohmann::json valid = to_json(AskOptions{.text = "hi"});
  ASSERT_EQ(refusal_of(valid.dump()), "");
  const std::vector<std::string> never = {"null", "true", "{}", R"({"x": 1})", R"([1])"};
  const std::vector<std::string> no_float = {R"("1")", "1e300", "[]"};
  const std::vector<std::string> no_integer = {
      R"("1")", "1e300", "[]", "1.5", "-9223372036854775809", "18446744073709551616"};
  const std::map<std::string, std::vector<std::string>> refused = {
      {"text", {"1", "[]"}},
      {"max_tokens", no_integer},
      {"temperature", no_float},
      {"top_k", no_integer},
      {"top_p", no_float},
      {"min_p", no_float},
      {"repetition_penalty", no_float},
      {"repetition_window", no_integer},
      {"seed", no_integer},
      {"stop", {"1", R"("END")", "[[]]"}}};
  for (const auto& [field, values] : refused) {
    ASSERT_TRUE(valid.contains(field)) << field;
    for (const auto* list : {&never, &values})
      for (const std::string& value : *list) {
        nlohmann::json line = valid;
        line[field] = "PLACE";
        std::string text = line.dump();
        text.replace(text.find("\"PLACE\""), 7, value);
        EXPECT_EQ(refusal_of(text), "corrupt") << text;
      }
  }
  nlohmann::json line = valid;
  line["seed"] = -1;
  EXPECT_EQ(refusal_of(line.dump()), "corrupt");
  line["seed"] = 0;
  line["top_k"] = int64_t{1} << 32;
  EXPECT_EQ(refusal_of(line.dump()), "corrupt");
}

TEST_F(AttachIntruderTest, AClientThatNeverReadsHoldsNobodyUp) {
  std::promise<void> answered;
  AttachServices services;
  services.ask = [&](const AskOptions& options, const auto& on_text, const auto& cancelled) {
    auto answer = answer_to(options, on_text, cancelled);
    if (options.text == "long") answered.set_value();
    return answer;
  };
  const auto other = AttachServer::start("other", services).value();
  const ProcessUse before = process_use();
  {
    const LineSocket deaf(connect_to_launch("other").value());
    ASSERT_TRUE(deaf.send(to_json(AskOptions{.text = "long"})));
    // The answer is made without waiting for its reader.
    EXPECT_EQ(answered.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
    const auto asker = attach("other");
    ASSERT_TRUE(asker.has_value());
    EXPECT_TRUE(asker
                    ->ask(
                        {"short", 8, {}}, [](std::string_view) {}, false)
                    .has_value());
  }
  EXPECT_LE(settled_use(before), before);
}

TEST_F(AttachIntruderTest, TooManyClientsAreToldSo) {
  {
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 256; ++i) silent.push_back(connect());
    for (size_t i = 0; i < silent.size(); i += 2) send_raw(silent[i].get(), "{\"te");
    EXPECT_EQ(refusal_of("{}"), "busy");
  }
  // Until all have been noticed as gone.
  while (refusal_of(R"({"hello": true})") == "busy") {
  }
  expect_service();
  expect_nothing_left();
}

std::string any_line(FuzzRandom& random) {
  const std::vector<std::string> valid = {
      R"({"hello": true})",
      R"({"snapshot": true})",
      R"({"cancel": true})",
      R"({"conversation": [{"question": "q", "answer": "a"}]})",
      to_json(AskOptions{.text = "hi"}).dump(),
      to_json(AskOptions{.text = "long", .stop = {"END"}}).dump(),
  };
  switch (random.below(6)) {
    case 0: return random.bytes(random.below(300)) + "\n";
    case 1: return std::string(random.below(5000), random.one_in(2) ? '[' : '{') + "\n";
    case 2: return random.bytes(random.below(20'000));  // half a line
    case 3: return valid[random.below(valid.size())] + "\n";
    default: return random.damaged(valid[random.below(valid.size())]) + "\n";
  }
}

TEST_F(AttachIntruderTest, FuzzedLinesDisturbNobody) {
  for (uint64_t round = 0; round < fuzz_rounds(200); ++round) {
    FuzzRandom random(round);
    const UniqueFd intruder = connect();
    for (size_t lines = 1 + random.below(6); lines > 0; --lines)
      send_raw(intruder.get(), any_line(random));
    if (random.one_in(4)) {
      char bytes[256];
      ::recv(intruder.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    }
    if (round % 20 == 0) expect_service();
  }
  expect_service();
  expect_nothing_left();
}

}  // namespace
}  // namespace suture
