// What the broker does for peers that have joined.
#include <fmt/format.h>

#include <utility>

#include "bus/broker_loop.h"

namespace suture {
namespace {

Status check_fd_count(const FdMessage& message, size_t expected) {
  if (message.fds.size() == expected) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} descriptors came instead of {}", message.fds.size(), expected));
}

}  // namespace

Status BrokerLoop::check_right_of(PeerId peer, BrokerRequest kind,
                                  const std::string& subject) const {
  if (!options_.rights) return {};
  return check_right(options_.rights->at(peers_.at(peer).name), kind, subject);
}

Result<BrokerLoop::Reply> BrokerLoop::serve(PeerId peer, const BrokerRequestData& request,
                                            const std::string& name, FdMessage message) {
  const auto kind = static_cast<BrokerRequest>(request.kind);
  SUTURE_RETURN_IF_ERROR(check_right_of(peer, kind, name));
  Reply reply{peer};
  auto& fds = message.fds;
  switch (kind) {
    case BrokerRequest::kPublishSlab:
      SUTURE_RETURN_IF_ERROR(check_fd_count(message, 2));
      SUTURE_RETURN_IF_ERROR(table_.publish_slab(peer, std::move(fds[0]), std::move(fds[1])));
      return reply;
    case BrokerRequest::kFindSlab: {
      SUTURE_ASSIGN_OR_RETURN(const auto slab, table_.find_slab(name));
      if (slab.owner.value == request.known) return Reply{slab.owner};
      return Reply{slab.owner, {slab.payload, slab.control}, 2};
    }
    case BrokerRequest::kPublishRing:
      SUTURE_RETURN_IF_ERROR(check_fd_count(message, 1));
      SUTURE_RETURN_IF_ERROR(table_.publish_ring(peer, name, std::move(fds[0])));
      return reply;
    case BrokerRequest::kFindRing: {
      SUTURE_ASSIGN_OR_RETURN(const int ring, table_.find_ring(name));
      return Reply{peer, {ring, -1}, 1};
    }
    case BrokerRequest::kWithdrawRing:
      SUTURE_RETURN_IF_ERROR(table_.withdraw_ring(peer, name));
      return reply;
    case BrokerRequest::kFindBlob:
    case BrokerRequest::kPublishBlob:
    case BrokerRequest::kLeaveBlob:
      return serve_blob(peer, kind, {name, request.blob_bytes}, std::move(message));
    case BrokerRequest::kHello: break;
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("request {} where none is expected", static_cast<uint32_t>(kind)));
}

Result<BrokerLoop::Reply> BrokerLoop::serve_blob(PeerId peer, BrokerRequest kind,
                                                 const BlobName& name, FdMessage message) {
  Reply reply{peer};
  if (kind == BrokerRequest::kFindBlob) {
    SUTURE_ASSIGN_OR_RETURN(const BlobTable::Answer found, blobs_.find(peer, name, Clock::now()));
    reply.blob = found.state;
    reply.fds[0] = found.fd;
    reply.n_fds = found.state == BlobState::kBuild ? 0 : 1;
  } else if (kind == BrokerRequest::kPublishBlob) {
    SUTURE_RETURN_IF_ERROR(check_fd_count(message, 1));
    SUTURE_RETURN_IF_ERROR(blobs_.publish(peer, name, std::move(message.fds[0]), Clock::now()));
  } else {
    blobs_.leave(peer, name, Clock::now());
  }
  return reply;
}

}  // namespace suture
