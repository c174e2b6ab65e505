#include "actors/tls_error_queue.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "actors/handshake_watch.h"
#include "base/check.h"

namespace suture {
namespace {

// Called before and after what happens on a connection's socket.
long on_bio(BIO*, int operation, const char*, size_t, int, long, int result, size_t*) {
  if (operation == BIO_CB_READ || operation == BIO_CB_WRITE) ERR_clear_error();
  return result;
}

// A connection's BIO is known when its handshake starts.
void on_info(const SSL* ssl, int where, int value) {
  on_handshake_event(ssl, where, value);
  if ((where & SSL_CB_HANDSHAKE_START) == 0) return;
  BIO_set_callback_ex(SSL_get_rbio(ssl), on_bio);
  BIO_set_callback_ex(SSL_get_wbio(ssl), on_bio);
}

// Called for every new context, those that CAF makes out of our sight among them.
void on_new_context(void* parent, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL_CTX_set_info_callback(static_cast<SSL_CTX*>(parent), on_info);
}

}  // namespace

void keep_tls_errors_apart() {
  watch_handshakes();
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, on_new_context, nullptr, nullptr);
  SUTURE_CHECK(index >= 0, "index={}", index);
}

}  // namespace suture
