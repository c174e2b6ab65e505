#include "bus/fd_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/check.h"

namespace suture {
namespace {

constexpr int kConnectSeconds = 5;  // for a listener that is stopped or overrun

struct SocketAddress {
  sockaddr_un data = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&data); }
};

// Abstract names start with a zero byte and have no terminator.
Result<SocketAddress> abstract_address(const std::string& name) {
  SocketAddress address;
  if (name.empty() || name.size() >= sizeof(address.data.sun_path)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("socket name of {} bytes instead of 1 to {}", name.size(),
                            sizeof(address.data.sun_path) - 1));
  }
  address.data.sun_family = AF_UNIX;
  std::memcpy(address.data.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<UniqueFd> new_socket(int flags) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket.valid()) return fail_errno("cannot make a Unix socket", errno);
  return socket;
}

union ControlBuffer {
  cmsghdr align;
  std::array<std::byte, CMSG_SPACE(FdChannel::kMaxFds * sizeof(int))> bytes;
};

// Takes ownership of everything that came along, whether it is wanted or not.
std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

bool is_gone(int error_number) {
  return error_number == EPIPE || error_number == ECONNRESET || error_number == ENOTCONN;
}

template <typename Call>
ssize_t retry_interrupted(Call&& call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

Result<FdChannel> FdChannel::connect(const std::string& address) {
  SUTURE_ASSIGN_OR_RETURN(const SocketAddress target, abstract_address(address));
  SUTURE_ASSIGN_OR_RETURN(UniqueFd socket, new_socket(0));
  // The send timeout bounds connect() as well.
  const timeval bound = {.tv_sec = kConnectSeconds, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
  const ssize_t result =
      retry_interrupted([&] { return ::connect(socket.get(), target.get(), target.length); });
  if (result == 0) return FdChannel(std::move(socket));
  if (errno == ECONNREFUSED) {
    return fail(ErrorCode::kNotFound, fmt::format("nobody listens at '{}'", address));
  }
  if (errno == EAGAIN) {
    return fail(ErrorCode::kTimeout,
                fmt::format("'{}' did not accept within {} s", address, kConnectSeconds));
  }
  return fail_errno(fmt::format("cannot connect to '{}'", address), errno);
}

Status FdChannel::send(std::span<const std::byte> bytes, std::span<const int> fds) const {
  SUTURE_CHECK(!bytes.empty() && bytes.size() <= kMaxBytes && fds.size() <= kMaxFds,
               "bytes={} fds={}", bytes.size(), fds.size());
  iovec data = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  ControlBuffer control = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = &control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  const ssize_t sent =
      retry_interrupted([&] { return ::sendmsg(fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (sent >= 0) return {};
  if (errno == EAGAIN) return fail(ErrorCode::kBusy, "the other side leaves its messages unread");
  if (is_gone(errno)) return fail(ErrorCode::kClosed, "the other side has hung up");
  return fail_errno("cannot send a message", errno);
}

Result<FdMessage> FdChannel::receive() const {
  FdMessage message;
  message.bytes.resize(kMaxBytes);
  iovec data = {message.bytes.data(), message.bytes.size()};
  ControlBuffer control = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = &control;
  header.msg_controllen = sizeof(control);
  const ssize_t received =
      retry_interrupted([&] { return ::recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  if (received < 0 && errno == EAGAIN) return fail(ErrorCode::kBusy, "no message is there");
  if (received < 0 && !is_gone(errno)) return fail_errno("cannot receive a message", errno);
  if (received < 0) return fail(ErrorCode::kClosed, "the other side has hung up");
  // Even a message without a byte, which looks like the end, can bring descriptors.
  message.fds = take_fds(header);
  if (received == 0) return fail(ErrorCode::kClosed, "the other side has hung up");
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("message of more than {} bytes or {} descriptors", kMaxBytes, kMaxFds));
  }
  message.bytes.resize(static_cast<size_t>(received));
  return message;
}

Status FdChannel::wait_readable(std::chrono::steady_clock::time_point deadline) const {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return fail(ErrorCode::kTimeout, "no message came in time");
    pollfd waited = {fd(), POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("cannot wait for a message", errno);
  }
}

Result<FdListener> FdListener::open() {
  std::array<uint64_t, 2> random = {};
  if (::getrandom(random.data(), sizeof(random), 0) != sizeof(random)) {
    return fail_errno("cannot get random bytes", errno);
  }
  FdListener listener;
  listener.address = fmt::format("suture-{:016x}{:016x}", random[0], random[1]);
  SUTURE_ASSIGN_OR_RETURN(const SocketAddress own, abstract_address(listener.address));
  SUTURE_ASSIGN_OR_RETURN(listener.socket, new_socket(SOCK_NONBLOCK));
  if (::bind(listener.socket.get(), own.get(), own.length) != 0 ||
      ::listen(listener.socket.get(), SOMAXCONN) != 0) {
    return fail_errno(fmt::format("cannot listen at '{}'", listener.address), errno);
  }
  return listener;
}

Result<FdChannel> FdListener::accept() const {
  UniqueFd accepted(static_cast<int>(
      retry_interrupted([&] { return ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC); })));
  if (accepted.valid()) return FdChannel(std::move(accepted));
  if (errno == EAGAIN) return fail(ErrorCode::kBusy, "nobody waits to be accepted");
  return fail_errno("cannot accept a connection", errno);
}

Result<PeerCredentials> peer_credentials(const FdChannel& channel) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(channel.fd(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return fail_errno("cannot tell who connected", errno);
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

}  // namespace suture
