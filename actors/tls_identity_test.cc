#include "actors/tls_identity.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <fstream>
#include <iterator>
#include <memory>

namespace suture {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslPtr = std::unique_ptr<SSL, decltype(&SSL_free)>;

ContextPtr context(const TlsIdentity& own, const TlsIdentity& trusted) {
  ContextPtr ctx(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(ctx.get(), own.certificate_path().c_str()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(ctx.get(), own.key_path().c_str(), SSL_FILETYPE_PEM), 1);
  EXPECT_EQ(SSL_CTX_check_private_key(ctx.get()), 1);
  EXPECT_EQ(SSL_CTX_load_verify_locations(ctx.get(), trusted.certificate_path().c_str(), nullptr),
            1);
  SSL_CTX_set_verify(ctx.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return ctx;
}

// Runs a handshake in memory; true if both sides accept.
bool handshake(SSL_CTX* server_context, SSL_CTX* client_context) {
  const SslPtr server(SSL_new(server_context), SSL_free);
  const SslPtr client(SSL_new(client_context), SSL_free);
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  BIO_new_bio_pair(&server_end, 0, &client_end, 0);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  for (int i = 0; i < 20; ++i) {
    const int client_done = SSL_do_handshake(client.get());
    const int server_done = SSL_do_handshake(server.get());
    if (client_done == 1 && server_done == 1) return true;
  }
  return false;
}

TEST(TlsIdentityTest, BothSidesOfOneLaunchAcceptEachOther) {
  const auto identity = TlsIdentity::create();
  ASSERT_TRUE(identity.has_value()) << identity.error().message();
  const auto server = context(*identity, *identity);
  const auto client = context(*identity, *identity);
  EXPECT_TRUE(handshake(server.get(), client.get()));
}

TEST(TlsIdentityTest, AnotherLaunchIsRefused) {
  const auto ours = TlsIdentity::create();
  const auto theirs = TlsIdentity::create();
  ASSERT_TRUE(ours.has_value() && theirs.has_value());
  const auto server = context(*ours, *ours);
  const auto stranger = context(*theirs, *ours);  // trusts our server, shows its own certificate
  EXPECT_FALSE(handshake(server.get(), stranger.get()));
  const auto victim = context(*ours, *theirs);  // our certificate, trusts only theirs
  EXPECT_FALSE(handshake(server.get(), victim.get()));
}

}  // namespace
}  // namespace suture
