// Keeps the failure of one TLS connection from closing the others of its thread.
//
// OpenSSL wants its per-thread error queue empty before every operation, or SSL_get_error() reports
// an older error as this one's (SSL_get_error(3)). CAF 0.17 does not empty it, and one thread
// serves all of its connections: after one peer was killed, every other one was taken for broken.
#pragma once

namespace suture {

// From now on every TLS connection of this process empties the queue before it reads or writes its
// socket, and its handshake is watched (actors/handshake_watch.h). Call before the first context is
// made; calling again changes nothing.
void keep_tls_errors_apart();

}  // namespace suture
