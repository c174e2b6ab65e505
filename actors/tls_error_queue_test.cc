#include "actors/tls_error_queue.h"

#include <gtest/gtest.h>
#include <openssl/err.h>

#include "actors/test_tls.h"

namespace suture {
namespace {

TEST(TlsErrorQueueTest, AnOlderErrorIsNotTakenForThisConnections) {
  keep_tls_errors_apart();
  const TlsIdentity identity = TlsIdentity::create().value();
  const auto context = tls_context(identity, identity);
  const TlsPair pair = tls_pair(context.get(), context.get());
  ASSERT_TRUE(handshake(pair));

  char byte = 0;
  while (SSL_read(pair.client.get(), &byte, 1) > 0) {
  }
  ERR_raise(ERR_LIB_SSL, SSL_R_UNEXPECTED_EOF_WHILE_READING);  // what a killed peer leaves
  EXPECT_EQ(SSL_get_error(pair.client.get(), SSL_read(pair.client.get(), &byte, 1)),
            SSL_ERROR_WANT_READ);
}

}  // namespace
}  // namespace suture
