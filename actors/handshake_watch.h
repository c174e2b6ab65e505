// Looks after the TLS handshakes of strangers on this process's port: one that fails is logged, and
// no more than a few may be unfinished. CAF 0.17 does neither.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>

namespace suture {

// Beyond it, the connection that has been at its handshake for longest is hung up on.
inline constexpr size_t kMaxUnfinishedHandshakes = 64;

// Call before the first connection is made; calling again changes nothing.
void watch_handshakes();

// What OpenSSL's info callback says of a connection.
void on_handshake_event(const SSL* ssl, int where, int value);

}  // namespace suture
