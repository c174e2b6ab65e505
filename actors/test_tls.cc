#include "actors/test_tls.h"

#include <gtest/gtest.h>

namespace suture {

SslContextPtr tls_context(const TlsIdentity& own, const TlsIdentity& trusted) {
  SslContextPtr context(SSL_CTX_new(TLS_method()));
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), own.certificate_path().c_str()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), own.key_path().c_str(), SSL_FILETYPE_PEM),
            1);
  EXPECT_EQ(SSL_CTX_check_private_key(context.get()), 1);
  EXPECT_EQ(
      SSL_CTX_load_verify_locations(context.get(), trusted.certificate_path().c_str(), nullptr), 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

TlsPair tls_pair(SSL_CTX* server, SSL_CTX* client) {
  TlsPair pair{SslPtr(SSL_new(server)), SslPtr(SSL_new(client))};
  BIO* server_end = nullptr;
  BIO* client_end = nullptr;
  BIO_new_bio_pair(&server_end, 0, &client_end, 0);
  SSL_set_bio(pair.server.get(), server_end, server_end);
  SSL_set_bio(pair.client.get(), client_end, client_end);
  SSL_set_accept_state(pair.server.get());
  SSL_set_connect_state(pair.client.get());
  return pair;
}

bool handshake(const TlsPair& pair) {
  for (int i = 0; i < 20; ++i) {
    const int client_done = SSL_do_handshake(pair.client.get());
    if (SSL_do_handshake(pair.server.get()) == 1 && client_done == 1) return true;
  }
  return false;
}

}  // namespace suture
