// Who gets through to the actors of a launch: only who shows its certificate.
#include "actors/caf_system.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/handshake_watch.h"
#include "actors/test_tls.h"
#include "base/test_fuzz.h"
#include "base/test_process_use.h"
#include "base/test_user.h"
#include "base/unique_fd.h"

namespace suture {
namespace {

using std::chrono::seconds;

// With an argument: CAF 0.17 dereferences a null pointer for an actor that has none.
caf::behavior multiplier(int factor) {
  return {[factor](int x) { return factor * x; }};
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A plain TCP connection to the port.
UniqueFd connect_to(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// Reads until the other side ends the connection; false if it does not.
bool is_hung_up_on(int fd) {
  char bytes[4096];
  pollfd waited = {fd, POLLIN, 0};
  while (::poll(&waited, 1, 60'000) > 0) {
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return true;
  }
  return false;
}

class CafSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "CAF is not instrumented: what its atomics order looks like a race";
#endif
    launcher_ = std::make_unique<CafSystem>(&identity_, 1);
    actor_ = launcher_->get().spawn(multiplier, 2);
    port_ = *caf::openssl::publish(actor_, 0, "127.0.0.1");
  }
  // A system ends after its last actor.
  void TearDown() override {
    if (actor_) caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  }

  // What a worker of this identity gets from the actor at the port; 0 if it is refused.
  int doubled_by(const TlsIdentity& identity, int x) const {
    CafSystem worker(&identity, 1);
    const auto actor = caf::openssl::remote_actor(worker.get(), "127.0.0.1", port_);
    if (!actor) return 0;
    int result = 0;
    caf::scoped_actor self(worker.get());
    self->request(*actor, seconds(60), x)
        .receive([&](int value) { result = value; }, [](const caf::error&) {});
    return result;
  }

  TlsIdentity identity_ = TlsIdentity::create().value();
  std::unique_ptr<CafSystem> launcher_;
  caf::actor actor_;
  uint16_t port_ = 0;
};

TEST_F(CafSystemTest, AWorkerOfThisLaunchIsServed) { EXPECT_EQ(doubled_by(identity_, 21), 42); }

// Whether a client with this context hears anything but the end of its handshake. With TLS 1.3 its
// own side may be done before the other one has refused it.
bool is_served(SSL_CTX* context, uint16_t port) {
  const SslPtr ssl(SSL_new(context));
  const UniqueFd fd = connect_to(port);
  SSL_set_fd(ssl.get(), fd.get());
  char byte = 0;
  return SSL_connect(ssl.get()) == 1 && SSL_read(ssl.get(), &byte, 1) == 1;
}

TEST_F(CafSystemTest, TheLauncherRefusesAnotherLaunchsCertificate) {
  const TlsIdentity theirs = TlsIdentity::create().value();
  EXPECT_TRUE(is_served(tls_context(identity_, identity_).get(), port_));
  EXPECT_FALSE(is_served(tls_context(theirs, identity_).get(), port_));
  EXPECT_EQ(doubled_by(theirs, 21), 0);
  EXPECT_EQ(doubled_by(identity_, 4), 8);
}

TEST_F(CafSystemTest, TheLauncherRefusesAClientWithoutACertificate) {
  const SslContextPtr bare(SSL_CTX_new(TLS_method()));
  EXPECT_FALSE(is_served(bare.get(), port_));
  EXPECT_EQ(doubled_by(identity_, 4), 8);
}

// It would accept every worker; none may accept it.
TEST_F(CafSystemTest, AWorkerRefusesALauncherWithAnotherCertificate) {
  const TlsIdentity theirs = TlsIdentity::create().value();
  const auto context = tls_context(theirs, theirs);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), generic, &size), 0);
  std::thread launcher([&] {
    const UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
    const SslPtr ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), fd.get());
    EXPECT_NE(SSL_accept(ssl.get()), 1);
  });
  CafSystem worker(&identity_, 1);
  EXPECT_FALSE(caf::openssl::remote_actor(worker.get(), "127.0.0.1", ntohs(address.sin_port)));
  launcher.join();
}

TEST_F(CafSystemTest, AnotherUserGetsNoFurtherThanTheHandshake) {
  if (!can_play_another_user()) GTEST_SKIP() << "only root can play another user";
  as_another_user([&] {
    const UniqueFd fd = connect_to(port_);
    const std::string line = "let me in\n";
    EXPECT_EQ(::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL), std::ssize(line));
    EXPECT_TRUE(is_hung_up_on(fd.get()));
  });
}

TEST_F(CafSystemTest, SilentConnectionsCrowdEachOtherOut) {
  const ProcessUse before = process_use();
  {
    std::vector<UniqueFd> silent;
    for (size_t i = 0; i < 2 * kMaxUnfinishedHandshakes; ++i) silent.push_back(connect_to(port_));
    for (size_t i = 0; i < kMaxUnfinishedHandshakes; ++i)
      EXPECT_TRUE(is_hung_up_on(silent[i].get())) << i;
    EXPECT_EQ(doubled_by(identity_, 4), 8);
  }
  EXPECT_LE(settled_use(before), before);
}

// A ClientHello such as a stranger's TLS library sends it.
std::string client_hello() {
  const SslContextPtr context(SSL_CTX_new(TLS_method()));
  const SslPtr ssl(SSL_new(context.get()));
  BIO* sent = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), sent);
  SSL_connect(ssl.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(sent, &data);
  return {data, static_cast<size_t>(size)};
}

TEST_F(CafSystemTest, FuzzedConnectionsDisturbNobody) {
  ProcessUse before = process_use();
  before.descriptors += 1;  // of the last connection, below
  const std::string hello = client_hello();
  for (uint64_t round = 0; round < fuzz_rounds(60); ++round) {
    FuzzRandom random(round);
    const UniqueFd intruder = connect_to(port_);
    for (size_t messages = random.below(4); messages > 0; --messages) {
      const std::string bytes = random.one_in(3)   ? random.bytes(random.below(2000))
                                : random.one_in(3) ? hello
                                                   : random.damaged(hello);
      ::send(intruder.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }
  // The launcher has come to the last of them: CAF gives a worker's handshake a few seconds only.
  const std::string bytes = "the end\n";
  const UniqueFd last = connect_to(port_);
  ::send(last.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(is_hung_up_on(last.get()));
  EXPECT_EQ(doubled_by(identity_, 4), 8);
  EXPECT_LE(settled_use(before), before);
}

}  // namespace
}  // namespace suture
