#include "actors/handshake_watch.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "bus/warning_limit.h"

namespace suture {
namespace {

struct Handshake {
  const SSL* ssl = nullptr;
  std::string why = "it hung up";  // should the connection end now
};

// OpenSSL's callbacks are plain functions: what they share is of the process.
struct Unfinished {
  std::mutex mutex;
  std::vector<Handshake> handshakes;  // the oldest first; guarded by mutex
  WarningLimit warnings{"control port"};

  std::vector<Handshake>::iterator find(const SSL* ssl) {
    return std::ranges::find(handshakes, ssl, &Handshake::ssl);
  }
};

Unfinished& unfinished() {
  // Never destroyed: the logger, and CAF's last connections, may end after this file's statics.
  static auto& all = *new Unfinished;
  return all;
}

void start(const SSL* ssl) {
  Unfinished& all = unfinished();
  const std::lock_guard lock(all.mutex);
  if (all.find(ssl) != all.handshakes.end()) return;
  all.handshakes.push_back({ssl});
  if (all.handshakes.size() <= kMaxUnfinishedHandshakes) return;
  // Its owner notices, as if the other side had hung up. The socket is open still: CAF closes it
  // after it has freed the connection, which then is not in the list any more.
  const SSL* oldest = all.handshakes.front().ssl;
  all.handshakes.erase(all.handshakes.begin());
  ::shutdown(SSL_get_fd(oldest), SHUT_RDWR);
  all.warnings.warn("refused connection",
                    fmt::format("{} have not finished their handshake; the oldest is dropped",
                                kMaxUnfinishedHandshakes));
}

void note(const SSL* ssl, const char* why) {
  Unfinished& all = unfinished();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.find(ssl); found != all.handshakes.end()) found->why = why;
}

void finish(const SSL* ssl) {
  Unfinished& all = unfinished();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.handshakes, [ssl](const Handshake& one) { return one.ssl == ssl; });
}

// OpenSSL frees a connection.
void on_free(void* parent, void*, CRYPTO_EX_DATA*, int, long, void*) {
  Unfinished& all = unfinished();
  const std::lock_guard lock(all.mutex);
  const auto found = all.find(static_cast<const SSL*>(parent));
  if (found == all.handshakes.end()) return;
  all.warnings.warn("refused connection", fmt::format("no TLS handshake: {}", found->why));
  all.handshakes.erase(found);
}

}  // namespace

void watch_handshakes() {
  unfinished();
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, on_free);
  SUTURE_CHECK(index >= 0, "index={}", index);
}

void on_handshake_event(const SSL* ssl, int where, int value) {
  if (SSL_is_server(ssl) == 0) return;
  // Later ones, of keys and tickets, are between peers that know each other.
  if ((where & SSL_CB_HANDSHAKE_START) != 0 && SSL_in_before(ssl) != 0) start(ssl);
  if ((where & SSL_CB_HANDSHAKE_DONE) != 0) finish(ssl);
  if ((where & SSL_CB_ALERT) != 0) note(ssl, SSL_alert_desc_string_long(value));
}

}  // namespace suture
