#include "bus/broker_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "bus/broker_wire.h"
#include "bus/stream_reader.h"

namespace suture {

struct BrokerReply {
  PeerId peer;
  std::vector<UniqueFd> fds;
  BlobState blob = BlobState::kNone;
};

namespace {

constexpr auto kCallBound = std::chrono::seconds(5);
// Until its slab shows a heartbeat, a peer's sign of life is that it uses processor time
// (look_at_process): this is how often it does at least, whatever the rest of it waits for.
constexpr int kSignOfLifeMs = 250;

BrokerRequestData request_of(BrokerRequest kind) {
  BrokerRequestData request;
  request.kind = static_cast<uint32_t>(kind);
  return request;
}

Result<BrokerRequestData> request_of(BrokerRequest kind, const std::string& name) {
  BrokerRequestData request = request_of(kind);
  if (request.name.assign(name)) return request;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("name of {} bytes is too long or holds zeros", name.size()));
}

Result<BrokerReply> understand(const BrokerReplyData& data, std::vector<UniqueFd> fds) {
  if (data.failed == 0) {
    return BrokerReply{PeerId{data.peer}, std::move(fds), static_cast<BlobState>(data.blob)};
  }
  if (data.error > static_cast<uint32_t>(ErrorCode::kBusy)) {
    return fail(ErrorCode::kCorrupt, fmt::format("unknown error {}", data.error), "broker");
  }
  return fail(static_cast<ErrorCode>(data.error), std::string(data.what.view().value_or("")),
              "broker");
}

Status check_fd_count(const BrokerReply& reply, size_t expected) {
  if (reply.fds.size() == expected) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} descriptors came instead of {}", reply.fds.size(), expected),
              "broker");
}

// Nobody writes to it: it ends with what it stands for, or with the broker.
void wait_for_hang_up(int fd) {
  pollfd waited = {fd, 0, 0};
  while (::poll(&waited, 1, -1) < 0 && errno == EINTR) continue;
}

}  // namespace

BrokerClient::BrokerClient(FdChannel channel, UniqueFd stop)
    : channel_(std::move(channel)), stop_(std::move(stop)) {}

Result<std::unique_ptr<BrokerClient>> BrokerClient::connect(const std::string& address,
                                                            const std::string& secret,
                                                            const std::string& name,
                                                            std::function<void()> on_broker_gone) {
  SUTURE_ASSIGN_OR_RETURN(BrokerRequestData hello, request_of(BrokerRequest::kHello, name));
  if (!hello.secret.assign(secret)) {
    return fail(ErrorCode::kInvalidArgument, "secret is not 1 to 128 bytes without zeros");
  }
  SUTURE_ASSIGN_OR_RETURN(FdChannel channel, FdChannel::connect(address));
  SUTURE_ASSIGN_OR_RETURN(const PeerCredentials broker, peer_credentials(channel));
  if (broker.uid != ::getuid()) {
    return fail(ErrorCode::kPermission,
                fmt::format("'{}' belongs to user {}", address, broker.uid));
  }
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return fail_errno("cannot make an eventfd", errno);
  std::unique_ptr<BrokerClient> client(new BrokerClient(std::move(channel), std::move(stop)));
  SUTURE_ASSIGN_OR_RETURN(const BrokerReply reply, client->call(hello));
  client->self_ = reply.peer;
  client->watcher_ =
      std::thread([raw = client.get(), gone = std::move(on_broker_gone)] { raw->watch(gone); });
  return client;
}

BrokerClient::~BrokerClient() {
  if (!watcher_.joinable()) return;
  ::eventfd_write(stop_.get(), 1);
  watcher_.join();
}

void BrokerClient::watch(const std::function<void()>& on_broker_gone) const {
  // No POLLIN on the connection: replies belong to the thread that waits for them.
  std::array<pollfd, 2> waited = {{{channel_.fd(), 0, 0}, {stop_.get(), POLLIN, 0}}};
  int events = 0;
  while (events == 0 || (events < 0 && errno == EINTR))
    events = ::poll(waited.data(), waited.size(), kSignOfLifeMs);
  if (waited[1].revents == 0 && on_broker_gone) on_broker_gone();
}

Status BrokerClient::publish_slab(int payload_fd, int control_fd) {
  const std::lock_guard lock(mutex_);
  const std::array<int, 2> fds = {payload_fd, control_fd};
  SUTURE_RETURN_IF_ERROR(call(request_of(BrokerRequest::kPublishSlab), fds));
  return {};
}

Result<std::shared_ptr<SlabView>> BrokerClient::slab(const std::string& owner_name) {
  const std::lock_guard lock(mutex_);
  SUTURE_ASSIGN_OR_RETURN(auto request, request_of(BrokerRequest::kFindSlab, owner_name));
  const auto imported = imported_.find(owner_name);
  if (imported != imported_.end()) request.known = imported->second.owner.value;
  auto reply = call(request);
  if (reply && imported != imported_.end() && reply->peer == imported->second.owner) {
    return imported->second.view;
  }
  // Whatever was imported is of an owner that is gone: kept by those who still read it, not by us.
  if (imported != imported_.end()) imported_.erase(imported);
  if (!reply) return tl::unexpected<Error>(std::move(reply).error());
  SUTURE_RETURN_IF_ERROR(check_fd_count(*reply, 2));
  SUTURE_ASSIGN_OR_RETURN(auto view,
                          SlabView::map(reply->fds[0].get(), reply->fds[1].get(), self_));
  if (view->owner() != reply->peer) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("slab of peer {} instead of peer {}", view->owner().value, reply->peer.value),
        owner_name);
  }
  imported_[owner_name] = {reply->peer, view};
  ++imports_;
  return view;
}

int64_t BrokerClient::imported_slabs() {
  const std::lock_guard lock(mutex_);
  return imports_;
}

Status BrokerClient::publish_ring(const std::string& ring_name, int fd) {
  const std::lock_guard lock(mutex_);
  SUTURE_ASSIGN_OR_RETURN(const auto request, request_of(BrokerRequest::kPublishRing, ring_name));
  SUTURE_RETURN_IF_ERROR(call(request, {&fd, 1}));
  return {};
}

Result<UniqueFd> BrokerClient::ring(const std::string& ring_name) {
  const std::lock_guard lock(mutex_);
  SUTURE_ASSIGN_OR_RETURN(const auto request, request_of(BrokerRequest::kFindRing, ring_name));
  SUTURE_ASSIGN_OR_RETURN(BrokerReply reply, call(request));
  SUTURE_RETURN_IF_ERROR(check_fd_count(reply, 1));
  return std::move(reply.fds[0]);
}

Status BrokerClient::withdraw_ring(const std::string& ring_name) {
  const std::lock_guard lock(mutex_);
  SUTURE_ASSIGN_OR_RETURN(const auto request, request_of(BrokerRequest::kWithdrawRing, ring_name));
  SUTURE_RETURN_IF_ERROR(call(request));
  return {};
}

Result<Mapping> BrokerClient::shared_blob(const std::string& key, uint64_t bytes,
                                          const BlobFill& fill) {
  SUTURE_ASSIGN_OR_RETURN(BrokerRequestData request, request_of(BrokerRequest::kFindBlob, key));
  request.blob_bytes = bytes;
  while (true) {
    SUTURE_ASSIGN_OR_RETURN(const BrokerReply reply, call_locked(request));
    if (reply.blob == BlobState::kBuild) return build_blob(request, fill);
    SUTURE_RETURN_IF_ERROR(check_fd_count(reply, 1));
    if (reply.blob == BlobState::kReady) return map_shared_blob(reply.fds[0].get(), bytes);
    wait_for_hang_up(reply.fds[0].get());
  }
}

// Without the lock: filling may take long.
Result<Mapping> BrokerClient::build_blob(BrokerRequestData request, const BlobFill& fill) {
  const auto blob = make_shared_blob(request.blob_bytes, fill);
  if (!blob) {
    request.kind = static_cast<uint32_t>(BrokerRequest::kLeaveBlob);
    static_cast<void>(call_locked(request));  // if it fails, the connection and the turn have ended
    return tl::unexpected<Error>(blob.error());
  }
  request.kind = static_cast<uint32_t>(BrokerRequest::kPublishBlob);
  const int fd = blob->get();
  SUTURE_RETURN_IF_ERROR(call_locked(request, {&fd, 1}));
  return map_shared_blob(fd, request.blob_bytes);
}

Result<BrokerReply> BrokerClient::call_locked(const BrokerRequestData& request,
                                              std::span<const int> fds) {
  const std::lock_guard lock(mutex_);
  return call(request, fds);
}

Result<BrokerReply> BrokerClient::call(BrokerRequestData request, std::span<const int> fds) {
  request.serial = next_serial_++;
  SUTURE_RETURN_IF_ERROR(channel_.send(std::as_bytes(std::span(&request, 1)), fds));
  return receive_reply(request.serial);
}

Result<BrokerReply> BrokerClient::receive_reply(uint64_t serial) {
  const auto deadline = std::chrono::steady_clock::now() + kCallBound;
  while (true) {
    SUTURE_RETURN_IF_ERROR(channel_.wait_readable(deadline));
    auto message = channel_.receive();
    if (!message && message.error().code == ErrorCode::kBusy) continue;
    if (!message) return tl::unexpected<Error>(std::move(message).error());
    SUTURE_RETURN_IF_ERROR(check_broker_version(message->bytes));
    SUTURE_ASSIGN_OR_RETURN(const auto data, message_data<BrokerReplyData>(*message));
    // Serial 0: the broker did not understand what we said. Another: the answer to a call that was
    // given up.
    if (data.serial == serial || data.serial == 0) return understand(data, std::move(message->fds));
  }
}

}  // namespace suture
