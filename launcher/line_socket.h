// JSON lines over a connected stream socket.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

struct LineLimits {
  size_t max_bytes = 16 << 20;  // of a line that comes
  int max_depth = 32;           // of its brackets
  int send_patience_ms = 5000;  // with another side that reads nothing
};

class LineSocket {
 public:
  explicit LineSocket(UniqueFd fd, LineLimits limits = {}) : fd_(std::move(fd)), limits_(limits) {}

  int fd() const { return fd_.get(); }
  // kTimeout if the other side reads nothing for too long, kClosed if it is gone. After
  // either, half a line may be on its way.
  Status send(const nlohmann::json& value) const;
  // The next line, without waiting longer than `timeout_ms` (-1 = for ever): nothing on time-out;
  // kClosed at the end; kCorrupt for a line that is not JSON, too long, or nested too deeply.
  Result<std::optional<nlohmann::json>> receive(int timeout_ms);

 private:
  Status wait_writable() const;

  UniqueFd fd_;
  LineLimits limits_;
  std::string buffer_;
  size_t searched_ = 0;  // bytes of the buffer that hold no line's end
};

}  // namespace suture
