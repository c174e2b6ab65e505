#include "actors/tls_identity.h"

#include <gtest/gtest.h>

#include "actors/test_tls.h"

namespace suture {
namespace {

TEST(TlsIdentityTest, BothSidesOfOneLaunchAcceptEachOther) {
  const auto identity = TlsIdentity::create();
  ASSERT_TRUE(identity.has_value()) << identity.error().message();
  const auto server = tls_context(*identity, *identity);
  const auto client = tls_context(*identity, *identity);
  EXPECT_TRUE(handshake(tls_pair(server.get(), client.get())));
}

TEST(TlsIdentityTest, AnotherLaunchIsRefused) {
  const auto ours = TlsIdentity::create();
  const auto theirs = TlsIdentity::create();
  ASSERT_TRUE(ours.has_value() && theirs.has_value());
  const auto server = tls_context(*ours, *ours);
  const auto stranger = tls_context(*theirs, *ours);  // trusts our server, shows its own
  EXPECT_FALSE(handshake(tls_pair(server.get(), stranger.get())));
  const auto victim = tls_context(*ours, *theirs);  // shows ours, trusts only theirs
  EXPECT_FALSE(handshake(tls_pair(server.get(), victim.get())));
}

}  // namespace
}  // namespace suture
