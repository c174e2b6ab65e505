#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/sha256.h"
#include "base/test_folder.h"
#include "base/unique_fd.h"
#include "launcher/model_source.h"

namespace suture {
namespace {

// Answers one HTTP request with the given bytes and keeps what was asked.
class OneReplyServer {
 public:
  explicit OneReplyServer(std::string reply) : listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    SUTURE_CHECK(::bind(listening_.get(), generic, size) == 0, "bind");
    SUTURE_CHECK(::listen(listening_.get(), 1) == 0, "listen");
    SUTURE_CHECK(::getsockname(listening_.get(), generic, &size) == 0, "getsockname");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, reply = std::move(reply)] { answer(reply); });
  }
  OneReplyServer(const OneReplyServer&) = delete;
  OneReplyServer& operator=(const OneReplyServer&) = delete;
  ~OneReplyServer() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // ends accept() if nobody came
    if (thread_.joinable()) thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/model.gguf"; }
  // After the transfer.
  const std::string& request() {
    thread_.join();
    return request_;
  }

 private:
  void answer(const std::string& reply) {
    const UniqueFd client(::accept(listening_.get(), nullptr, nullptr));
    if (!client.valid()) return;
    std::array<char, 4096> buffer{};
    while (request_.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::read(client.get(), buffer.data(), buffer.size());
      if (got <= 0) return;
      request_.append(buffer.data(), static_cast<size_t>(got));
    }
    const ssize_t sent = ::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    SUTURE_CHECK(sent == static_cast<ssize_t>(reply.size()), "sent {}", sent);
  }

  UniqueFd listening_;
  uint16_t port_ = 0;
  std::string request_;
  std::thread thread_;
};

class HubSourceTest : public testing::Test {
 protected:
  HubSourceTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    for (int i = 0; i < 5000; ++i) content_ += static_cast<char>('a' + i % 26);
    entry_.name = "tiny";
    entry_.bytes = content_.size();
    Sha256 hash;
    hash.update(content_);
    entry_.sha256 = hash.finish();
    target_ = folder_.path() / "tiny.gguf";
  }

  static std::string reply(const std::string& status, const std::string& body,
                           const std::string& headers = {}) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "Connection: close\r\n\r\n" + body;
  }

  // What is there already, then one transfer from the server.
  Status fetch(const std::string& there, const std::string& url,
               const std::string& protocols = "http") {
    folder_.write("tiny.gguf.partial", there);
    SUTURE_ASSIGN_OR_RETURN(PartialFile file, PartialFile::open(target_, entry_.bytes));
    SUTURE_RETURN_IF_ERROR(make_hub_source(url, protocols)->fetch(entry_, file, {}));
    return file.finish(entry_.sha256);
  }

  TestFolder folder_;
  std::string content_;
  ModelEntry entry_;
  std::filesystem::path target_;
};

TEST_F(HubSourceTest, AsksForWhatIsMissing) {
  OneReplyServer server(reply("206 Partial Content", content_.substr(3000),
                              "Content-Range: bytes 3000-4999/5000\r\n"));
  const Status status = fetch(content_.substr(0, 3000), server.url());
  ASSERT_TRUE(status.has_value()) << status.error().message();
  EXPECT_NE(server.request().find("Range: bytes=3000-"), std::string::npos);
}

TEST_F(HubSourceTest, StartsAgainWhenTheServerSendsTheWholeFile) {
  OneReplyServer server(reply("200 OK", content_));
  const Status status = fetch(content_.substr(0, 3000), server.url());
  ASSERT_TRUE(status.has_value()) << status.error().message();
}

TEST_F(HubSourceTest, AnErrorReplyIsNotTakenForTheFile) {
  OneReplyServer server(reply("404 Not Found", "There is no such model here."));
  const Status status = fetch("", server.url());
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().what.find("404"), std::string::npos) << status.error().what;
}

TEST_F(HubSourceTest, ACutTransferKeepsWhatCame) {
  std::string cut = reply("200 OK", content_);
  cut.resize(cut.size() - 1000);
  OneReplyServer server(cut);
  ASSERT_FALSE(fetch("", server.url()).has_value());
  EXPECT_EQ(std::filesystem::file_size(folder_.path() / "tiny.gguf.partial"), 4000u);
  EXPECT_FALSE(std::filesystem::exists(target_));
}

TEST_F(HubSourceTest, OtherProtocolsAreRefusedAlsoAfterARedirect) {
  const auto secret = folder_.write("secret", content_);
  OneReplyServer server(reply("302 Found", "", "Location: file://" + secret.string() + "\r\n"));
  EXPECT_FALSE(fetch("", server.url()).has_value());
  EXPECT_FALSE(fetch("", "http://127.0.0.1:1/model.gguf", "https").has_value());
}

}  // namespace
}  // namespace suture
