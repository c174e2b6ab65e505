#include "launcher/line_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace suture {
namespace {

Result<nlohmann::json> parse_line(const std::string& text, size_t length, int max_depth) {
  bool too_deep = false;
  // What lies deeper is thrown away while it is read: a line of brackets costs no memory.
  const auto keep = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > max_depth;
    return depth <= max_depth;
  };
  auto value = nlohmann::json::parse(text.begin(), text.begin() + static_cast<ptrdiff_t>(length),
                                     keep, false);
  if (too_deep) return fail(ErrorCode::kCorrupt, "a line is nested too deeply", "attach socket");
  if (value.is_discarded()) return fail(ErrorCode::kCorrupt, "a line is not JSON", "attach socket");
  return value;
}

}  // namespace

Status LineSocket::send(const nlohmann::json& value) const {
  const std::string line =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n =
        ::send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      SUTURE_RETURN_IF_ERROR(wait_writable());
      continue;
    }
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
      return fail(ErrorCode::kClosed, "the other side hung up", "attach socket");
    if (n < 0) return fail_errno("cannot write", errno, "attach socket");
    sent += static_cast<size_t>(n);
  }
  return {};
}

Status LineSocket::wait_writable() const {
  pollfd poll_fd{fd_.get(), POLLOUT, 0};
  const int ready = ::poll(&poll_fd, 1, limits_.send_patience_ms);
  if (ready == 0)
    return fail(ErrorCode::kTimeout, "the other side does not read what it is sent",
                "attach socket");
  if (ready < 0 && errno != EINTR) return fail_errno("cannot wait", errno, "attach socket");
  return {};
}

Result<std::optional<nlohmann::json>> LineSocket::receive(int timeout_ms) {
  while (true) {
    if (const size_t end = buffer_.find('\n', searched_); end != std::string::npos) {
      auto value = parse_line(buffer_, end, limits_.max_depth);
      buffer_.erase(0, end + 1);
      searched_ = 0;
      if (!value) return tl::unexpected<Error>(std::move(value).error());
      return std::move(*value);
    }
    searched_ = buffer_.size();
    if (buffer_.size() > limits_.max_bytes)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("a line is longer than {} bytes", limits_.max_bytes),
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
