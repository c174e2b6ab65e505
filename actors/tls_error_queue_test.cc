#include "actors/tls_error_queue.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "actors/tls_identity.h"

namespace suture {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslPtr = std::unique_ptr<SSL, decltype(&SSL_free)>;

TEST(TlsErrorQueueTest, AnOlderErrorIsNotTakenForThisConnections) {
  keep_tls_errors_apart();
  const TlsIdentity identity = TlsIdentity::create().value();
  const ContextPtr context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX_use_certificate_chain_file(context.get(), identity.certificate_path().c_str());
  SSL_CTX_use_PrivateKey_file(context.get(), identity.key_path().c_str(), SSL_FILETYPE_PEM);
  const SslPtr server(SSL_new(context.get()), SSL_free);
  const SslPtr client(SSL_new(context.get()), SSL_free);
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  BIO_new_bio_pair(&server_end, 0, &client_end, 0);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  bool connected = false;
  for (int i = 0; i < 20 && !connected; ++i) {
    const int client_done = SSL_do_handshake(client.get());
    connected = SSL_do_handshake(server.get()) == 1 && client_done == 1;
  }
  ASSERT_TRUE(connected);

  char byte = 0;
  while (SSL_read(client.get(), &byte, 1) > 0) {
  }
  ERR_raise(ERR_LIB_SSL, SSL_R_UNEXPECTED_EOF_WHILE_READING);  // what a killed peer leaves
  EXPECT_EQ(SSL_get_error(client.get(), SSL_read(client.get(), &byte, 1)), SSL_ERROR_WANT_READ);
}

}  // namespace
}  // namespace suture
