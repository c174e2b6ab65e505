// A TLS server and client joined in memory, for tests.
#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "actors/openssl_ptr.h"
#include "actors/tls_identity.h"

namespace suture {

using SslContextPtr = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, FreeWith<SSL_free>>;

// Shows `own` and accepts peers that `trusted` has signed.
SslContextPtr tls_context(const TlsIdentity& own, const TlsIdentity& trusted);

struct TlsPair {
  SslPtr server;
  SslPtr client;
};
TlsPair tls_pair(SSL_CTX* server, SSL_CTX* client);

// True if both sides accept each other.
bool handshake(const TlsPair& pair);

}  // namespace suture
