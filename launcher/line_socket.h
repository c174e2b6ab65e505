// JSON lines over a connected stream socket.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

class LineSocket {
 public:
  explicit LineSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  Status send(const nlohmann::json& value) const;
  // The next line, without waiting longer than `timeout_ms` (-1 = for ever): nothing on time-out;
  // kClosed at the end; kCorrupt for a line that is not JSON or longer than kMaxLineBytes.
  Result<std::optional<nlohmann::json>> receive(int timeout_ms);

  static constexpr size_t kMaxLineBytes = 16 << 20;

 private:
  UniqueFd fd_;
  std::string buffer_;
};

}  // namespace suture
