#include "bus/peer_rights.h"

#include <fmt/format.h>

#include "bus/broker_wire.h"

namespace suture {
namespace {

Status allow_if(bool allowed, const char* what, const std::string& subject) {
  if (allowed) return {};
  return fail(ErrorCode::kPermission, fmt::format("this peer may not {} '{}'", what, subject));
}

}  // namespace

Status check_right(const PeerRights& rights, BrokerRequest request, const std::string& subject) {
  switch (request) {
    case BrokerRequest::kFindSlab:
      return allow_if(rights.reads.contains(subject), "read the slab of", subject);
    case BrokerRequest::kPublishRing:
      return allow_if(rights.publishes_rings, "publish ring", subject);
    case BrokerRequest::kFindRing: return allow_if(rights.opens_rings, "open ring", subject);
    case BrokerRequest::kFindBlob:
    case BrokerRequest::kPublishBlob: return allow_if(rights.shares_blobs, "share blob", subject);
    case BrokerRequest::kLeaveBlob:
    case BrokerRequest::kHello:
    case BrokerRequest::kPublishSlab:
    case BrokerRequest::kWithdrawRing: break;
  }
  return {};
}

}  // namespace suture
