// Short messages with file descriptors over Unix sockets that keep message boundaries.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

struct FdMessage {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;  // close-on-exec
};

// The bytes of `message` as the plain data T; kCorrupt if the size differs.
template <typename T>
Result<T> message_data(const FdMessage& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (message.bytes.size() != sizeof(T)) {
    return fail(ErrorCode::kCorrupt, "message of " + std::to_string(message.bytes.size()) +
                                         " bytes instead of " + std::to_string(sizeof(T)));
  }
  T data;
  std::memcpy(&data, message.bytes.data(), sizeof(T));
  return data;
}

// One end of a SOCK_SEQPACKET connection. Never blocks except in wait_readable.
class FdChannel {
 public:
  static constexpr size_t kMaxBytes = 4096;  // per message
  static constexpr size_t kMaxFds = 4;       // per message

  explicit FdChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  // Connects to an abstract socket. kNotFound when nobody listens there, kTimeout when the listener
  // accepts nobody.
  static Result<FdChannel> connect(const std::string& address);

  // kBusy when the other side leaves too many messages unread, kClosed when it is gone.
  Status send(std::span<const std::byte> bytes, std::span<const int> fds = {}) const;
  // kBusy when nothing is there, kClosed after the last message of a side that is gone, kCorrupt
  // for a message over the limits (which is dropped with its descriptors).
  Result<FdMessage> receive() const;
  // kTimeout when neither a message nor the end came before the deadline.
  Status wait_readable(std::chrono::steady_clock::time_point deadline) const;

  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
};

// Listens on an abstract socket of a random name.
struct FdListener {
  std::string address;
  UniqueFd socket;  // non-blocking

  static Result<FdListener> open();
  // kBusy when nobody is waiting to be accepted.
  Result<FdChannel> accept() const;
};

// Who stood at the other end when it connected.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
Result<PeerCredentials> peer_credentials(const FdChannel& channel);

}  // namespace suture
