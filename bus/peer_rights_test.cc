#include "bus/peer_rights.h"

#include <gtest/gtest.h>

#include "bus/broker_wire.h"

namespace suture {
namespace {

TEST(PeerRightsTest, NothingOfOthersIsAllowedUnlessItIsGiven) {
  const PeerRights none;
  for (const BrokerRequest request :
       {BrokerRequest::kFindSlab, BrokerRequest::kPublishRing, BrokerRequest::kFindRing,
        BrokerRequest::kFindBlob, BrokerRequest::kPublishBlob})
    EXPECT_EQ(check_right(none, request, "x").error().code, ErrorCode::kPermission);
  for (const BrokerRequest request :
       {BrokerRequest::kPublishSlab, BrokerRequest::kWithdrawRing, BrokerRequest::kLeaveBlob})
    EXPECT_TRUE(check_right(none, request, "x"));
}

TEST(PeerRightsTest, EachRightGivesWhatItSays) {
  const PeerRights reader{.reads = {"slave"}};
  EXPECT_TRUE(check_right(reader, BrokerRequest::kFindSlab, "slave"));
  EXPECT_FALSE(check_right(reader, BrokerRequest::kFindSlab, "other"));
  EXPECT_FALSE(check_right(reader, BrokerRequest::kFindRing, "slave"));
  const PeerRights publisher{.publishes_rings = true};
  EXPECT_TRUE(check_right(publisher, BrokerRequest::kPublishRing, "answer/1"));
  EXPECT_FALSE(check_right(publisher, BrokerRequest::kFindRing, "answer/1"));
  const PeerRights consumer{.opens_rings = true};
  EXPECT_TRUE(check_right(consumer, BrokerRequest::kFindRing, "answer/1"));
  EXPECT_FALSE(check_right(consumer, BrokerRequest::kPublishRing, "answer/1"));
  EXPECT_FALSE(check_right(consumer, BrokerRequest::kFindBlob, "weights"));
  const PeerRights sharer{.shares_blobs = true};
  EXPECT_TRUE(check_right(sharer, BrokerRequest::kFindBlob, "weights"));
  EXPECT_TRUE(check_right(sharer, BrokerRequest::kPublishBlob, "weights"));
  EXPECT_FALSE(check_right(sharer, BrokerRequest::kFindRing, "answer/1"));
}

}  // namespace
}  // namespace suture
