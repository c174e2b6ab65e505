#include "bus/broker_loop.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

// glibc 2.36 forgot to say so itself.
extern "C" {
#include <sys/pidfd.h>
}

namespace suture {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxConnections = 1024;  // descriptors that peers can make us hold
constexpr size_t kMaxStrangers = 64;      // of them, without the secret
constexpr int kMaxAccepts = 64;           // in a row, before others get their turn

// Takes the same time wherever the two differ.
bool same_secret(const WireText<129>& left, const WireText<129>& right) {
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < left.bytes.size(); ++i) {
    difference = difference | static_cast<unsigned char>(left.bytes[i] ^ right.bytes[i]);
  }
  return difference == 0;
}

bool hung_up(int fd) {
  pollfd asked = {fd, 0, 0};
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & POLLHUP) != 0;
}

// How a process ended, as far as we may know: only its parent does. It is left for the supervisor
// to reap.
std::string describe_exit(pid_t pid, int pidfd) {
  siginfo_t info = {};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return fmt::format("process {} ended", pid);
  }
  if (info.si_code == CLD_EXITED) {
    return fmt::format("process {} ended with status {}", pid, info.si_status);
  }
  const char* meaning = ::sigdescr_np(info.si_status);
  return fmt::format("process {} ended by signal {} ({})", pid, info.si_status,
                     meaning != nullptr ? meaning : "unknown");
}

BrokerReplyData success(uint64_t serial, PeerId peer, BlobState blob) {
  BrokerReplyData reply;
  reply.serial = serial;
  reply.peer = peer.value;
  reply.blob = static_cast<uint32_t>(blob);
  return reply;
}

BrokerReplyData failure(uint64_t serial, const Error& error) {
  BrokerReplyData reply;
  reply.serial = serial;
  reply.failed = 1;
  reply.error = static_cast<uint32_t>(error.code);
  reply.what.assign(std::string_view(error.what).substr(0, reply.what.bytes.size() - 1));
  return reply;
}

}  // namespace

BrokerLoop::BrokerLoop(BrokerOptions options, FdListener listener, UniqueFd epoll, UniqueFd stop)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      stop_(std::move(stop)) {}

Result<std::unique_ptr<BrokerLoop>> BrokerLoop::start(BrokerOptions options) {
  WireText<129> secret;
  if (options.secret.empty() || !secret.assign(options.secret)) {
    return fail(ErrorCode::kInvalidArgument, "secret is not 1 to 128 bytes without zeros",
                "broker");
  }
  if (options.look_interval <= milliseconds(0)) {
    return fail(ErrorCode::kInvalidArgument, "look interval is not positive", "broker");
  }
  SUTURE_ASSIGN_OR_RETURN(FdListener listener, FdListener::open());
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !stop.valid()) return fail_errno("cannot start the broker", errno);
  std::unique_ptr<BrokerLoop> loop(
      new BrokerLoop(std::move(options), std::move(listener), std::move(epoll), std::move(stop)));
  loop->secret_ = secret;
  SUTURE_RETURN_IF_ERROR(loop->watch(loop->stop_.get(), Source::kStop, 0));
  SUTURE_RETURN_IF_ERROR(loop->watch(loop->listener_.socket.get(), Source::kListener, 0));
  loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  return loop;
}

BrokerLoop::~BrokerLoop() {
  if (!thread_.joinable()) return;
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

Status BrokerLoop::watch(int fd, Source source, uint64_t id) const {
  epoll_event event = {};
  // Edge-triggered for the listener: when no descriptor is left to accept with, a waiting stranger
  // must not keep the loop spinning.
  event.events = source == Source::kListener ? EPOLLIN | EPOLLET : EPOLLIN;
  event.data.u64 = event_key(source, id);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail_errno("cannot watch a descriptor", errno, "broker");
}

void BrokerLoop::run() {
  auto next_look = Clock::now() + options_.look_interval;
  const auto bound = [&] {
    const auto left = std::chrono::ceil<milliseconds>(next_look - Clock::now());
    return more_to_accept_ ? milliseconds(0) : std::max(milliseconds(0), left);
  };
  while (handle_events(bound())) {
    if (more_to_accept_) accept_some();
    if (Clock::now() < next_look) continue;
    look_at_all();
    next_look = Clock::now() + options_.look_interval;
  }
}

bool BrokerLoop::handle_events(milliseconds bound) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(bound.count()));
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    switch (static_cast<Source>(key & 3)) {
      case Source::kStop: return false;
      case Source::kListener: more_to_accept_ = true; break;
      case Source::kConnection: on_connection(key >> 2); break;
      case Source::kProcess: end_peer(PeerId{key >> 2}); break;
    }
  }
  return true;
}

// Whoever connects without a pause must not keep the loop from everything else.
void BrokerLoop::accept_some() {
  more_to_accept_ = false;
  for (int i = 0; i < kMaxAccepts; ++i) {
    auto channel = listener_.accept();
    if (!channel && channel.error().code == ErrorCode::kBusy) return;
    const Status admitted =
        channel ? admit(std::move(*channel)) : Status(tl::unexpected<Error>(channel.error()));
    if (admitted) continue;
    warnings_.warn("refused connection", admitted.error().message());
    if (!channel) return;  // tried again at the next look
  }
  more_to_accept_ = true;
}

Status BrokerLoop::admit(FdChannel channel) {
  SUTURE_ASSIGN_OR_RETURN(const PeerCredentials credentials, peer_credentials(channel));
  if (credentials.uid != ::getuid() || credentials.pid <= 0) {
    return fail(ErrorCode::kPermission,
                fmt::format("process {} of user {}", credentials.pid, credentials.uid));
  }
  if (connections_.size() >= kMaxConnections) {
    return fail(ErrorCode::kBusy, fmt::format("{} connections are open", kMaxConnections));
  }
  UniqueFd pidfd;
  if (credentials.pid != ::getpid()) {
    pidfd.reset(::pidfd_open(credentials.pid, 0));
    if (!pidfd.valid()) return fail_errno("cannot watch a process that connected", errno);
    // Still connected, so the pidfd is of the process that connected, not of a later one that was
    // given the same number.
    if (hung_up(channel.fd())) return fail(ErrorCode::kClosed, "a process connected and ended");
  }
  const uint64_t id = next_connection_++;
  SUTURE_RETURN_IF_ERROR(watch(channel.fd(), Source::kConnection, id));
  connections_.emplace(id, Connection{std::move(channel), credentials.pid, std::move(pidfd),
                                      Clock::now(), PeerId{}});
  limit_strangers();
  return {};
}

// Beyond the limit, the process with most connections loses its oldest: who floods the broker
// crowds out itself first.
void BrokerLoop::limit_strangers() {
  std::map<pid_t, std::vector<uint64_t>> strangers;
  size_t count = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection.peer.valid()) continue;
    strangers[connection.pid].push_back(id);
    ++count;
  }
  if (count <= kMaxStrangers) return;
  const auto most = std::ranges::max_element(
      strangers, {}, [](const auto& of_process) { return of_process.second.size(); });
  warnings_.warn("too many connections", fmt::format("process {} has {} that showed no secret",
                                                     most->first, most->second.size()));
  close_connection(most->second.front());
}

void BrokerLoop::on_connection(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  auto message = found->second.channel.receive();
  if (!message && message.error().code == ErrorCode::kBusy) return;
  if (!message && message.error().code != ErrorCode::kClosed) {
    warnings_.warn("refused message",
                   fmt::format("process {}: {}", found->second.pid, message.error().what));
  }
  if (!message || !respond(id, std::move(*message))) close_connection(id);
}

bool BrokerLoop::respond(uint64_t connection_id, FdMessage message) {
  const auto request = check_broker_version(message.bytes).and_then([&] {
    return message_data<BrokerRequestData>(message);
  });
  const auto reply = request.and_then([&](const BrokerRequestData& understood) {
    return answer(connection_id, understood, std::move(message));
  });
  const Connection& connection = connections_.at(connection_id);
  // Who sends nonsense, or has not shown the secret by now, gets one answer and no second chance.
  const bool keep = connection.peer.valid() && (reply || reply.error().code != ErrorCode::kCorrupt);
  if (!reply && (!keep || reply.error().code == ErrorCode::kPermission)) {
    warnings_.warn("refused request",
                   fmt::format("process {}: {}", connection.pid, reply.error().what));
  }
  const uint64_t serial = request ? request->serial : 0;
  const BrokerReplyData data =
      reply ? success(serial, reply->peer, reply->blob) : failure(serial, reply.error());
  std::span<const int> fds;
  if (reply) fds = std::span(reply->fds).first(reply->n_fds);
  return connection.channel.send(std::as_bytes(std::span(&data, 1)), fds) && keep;
}

void BrokerLoop::close_connection(uint64_t id) {
  const PeerId peer = connections_.at(id).peer;
  connections_.erase(id);
  if (!peer.valid()) return;
  Peer& left = peers_.at(peer);
  left.connection = 0;
  blobs_.leave_all(peer, Clock::now());
  // Another process may still use what it has mapped: only its pidfd tells the end.
  if (!left.pidfd.valid()) end_peer(peer);
}

Result<BrokerLoop::Reply> BrokerLoop::answer(uint64_t connection_id,
                                             const BrokerRequestData& request, FdMessage message) {
  const auto name = request.name.view();
  if (!name) return fail(ErrorCode::kCorrupt, "name without an end");
  const auto kind = static_cast<BrokerRequest>(request.kind);
  const PeerId peer = connections_.at(connection_id).peer;
  if (kind == BrokerRequest::kHello && !peer.valid()) return hello(connection_id, request);
  if (!peer.valid()) return fail(ErrorCode::kPermission, "the secret comes first");
  return serve(peer, request, std::string(*name), std::move(message));
}

Result<BrokerLoop::Reply> BrokerLoop::hello(uint64_t connection_id,
                                            const BrokerRequestData& request) {
  if (!same_secret(request.secret, secret_)) {
    return fail(ErrorCode::kPermission, "wrong secret");
  }
  Connection& connection = connections_.at(connection_id);
  const std::string name(*request.name.view());
  SUTURE_RETURN_IF_ERROR(check_join(name));
  SUTURE_ASSIGN_OR_RETURN(const PeerId id, table_.join(name));
  Peer peer{name,
            connection.pid,
            std::move(connection.pidfd),
            connection_id,
            Liveness(options_.look_interval, options_.hung_after),
            PeerEnd::kExited,
            {}};
  if (peer.pidfd.valid()) {
    if (const Status watched = watch(peer.pidfd.get(), Source::kProcess, id.value); !watched) {
      table_.end(id);
      return tl::unexpected<Error>(watched.error());
    }
  }
  connection.peer = id;
  peers_.emplace(id, std::move(peer));
  if (options_.on_peer_joined) options_.on_peer_joined(id, name, connection.pid);
  return Reply{id};
}

Status BrokerLoop::check_join(const std::string& name) const {
  if (!options_.rights || options_.rights->contains(name)) return {};
  return fail(ErrorCode::kPermission, "no peer of this launch has that name");
}

void BrokerLoop::look_at_all() {
  accept_some();
  blobs_.end_turns_before(Clock::now() - options_.blob_bound, Clock::now());
  for (auto& [id, peer] : peers_) {
    if (peer.pidfd.valid()) look_at(id, peer);
  }
  std::vector<uint64_t> silent;
  for (const auto& [id, connection] : connections_) {
    if (connection.peer.valid() || Clock::now() - connection.since < options_.hello_bound) continue;
    warnings_.warn("silent connection", fmt::format("process {} showed no secret", connection.pid));
    silent.push_back(id);
  }
  for (const uint64_t id : silent) close_connection(id);
}

void BrokerLoop::look_at(PeerId id, Peer& peer) {
  const auto look = look_at_process(peer.pid, Clock::now(), table_.activity(id));
  if (!look) return;  // just ended: the pidfd tells
  switch (peer.liveness.observe(*look)) {
    case LivenessVerdict::kAlive: return;
    case LivenessVerdict::kStopped:
      return kill(peer, PeerEnd::kStopped,
                  fmt::format("process {} was stopped in two looks {} ms apart; killed", peer.pid,
                              options_.look_interval.count()));
    case LivenessVerdict::kHung:
      return kill(peer, PeerEnd::kHung,
                  fmt::format("process {} showed no heartbeat and no progress for {} ms; killed",
                              peer.pid, options_.hung_after.count()));
  }
}

void BrokerLoop::kill(Peer& peer, PeerEnd end, std::string detail) {
  if (peer.end != PeerEnd::kExited) return;  // killed already, and still on its way out
  if (::pidfd_send_signal(peer.pidfd.get(), SIGKILL, nullptr, 0) != 0) return;
  peer.end = end;
  peer.detail = std::move(detail);
}

void BrokerLoop::end_peer(PeerId id) {
  const auto ended = peers_.extract(id);
  if (ended.empty()) return;
  const Peer& peer = ended.mapped();
  connections_.erase(peer.connection);
  blobs_.leave_all(id, Clock::now());
  table_.end(id);
  if (!options_.on_peer_end) return;
  std::string detail = peer.detail;
  if (detail.empty()) {
    detail = peer.pidfd.valid() ? describe_exit(peer.pid, peer.pidfd.get()) : "disconnected";
  }
  options_.on_peer_end(id, peer.name, peer.end, detail);
}

}  // namespace suture
