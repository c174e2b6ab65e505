#include "launcher/line_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace suture {

Status LineSocket::send(const nlohmann::json& value) const {
  const std::string line =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
      return fail(ErrorCode::kClosed, "the other side hung up", "attach socket");
    if (n < 0) return fail_errno("cannot write", errno, "attach socket");
    sent += static_cast<size_t>(n);
  }
  return {};
}

Result<std::optional<nlohmann::json>> LineSocket::receive(int timeout_ms) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      auto value = nlohmann::json::parse(
          buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
      buffer_.erase(0, end + 1);
      if (value.is_discarded())
        return fail(ErrorCode::kCorrupt, "a line is not JSON", "attach socket");
      return value;
    }
    if (buffer_.size() > kMaxLineBytes)
      return fail(ErrorCode::kCorrupt, fmt::format("a line is longer than {} bytes", kMaxLineBytes),
                  "attach socket");
    pollfd poll_fd{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&poll_fd, 1, timeout_ms);
    if (ready == 0) return std::nullopt;
    if (ready < 0 && errno != EINTR) return fail_errno("cannot wait", errno, "attach socket");
    char bytes[4096];
    const ssize_t n = ready > 0 ? ::recv(fd_.get(), bytes, sizeof bytes, 0) : -1;
    if (n == 0) return fail(ErrorCode::kClosed, "the other side hung up", "attach socket");
    if (n < 0 && errno == ECONNRESET)
      return fail(ErrorCode::kClosed, "the other side hung up", "attach socket");
    if (n < 0 && errno != EINTR) return fail_errno("cannot read", errno, "attach socket");
    if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
  }
}

}  // namespace suture
