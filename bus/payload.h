// The memory that holds K and V. Its owner writes it; every other process can map it read-only and
// nothing else (seals SHRINK | GROW | FUTURE_WRITE | SEAL).
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"

namespace suture {

class Payload {
 public:
  // Allocates all bytes, maps them read-write, then seals. kOutOfMemory with sizes.
  static Result<Payload> create(uint64_t bytes);
  // Maps a payload received from another process. kPermission if a seal is missing, kCorrupt if
  // the size is not exactly `bytes`. `fd` stays the caller's.
  static Result<Mapping> open_read_only(int fd, uint64_t bytes);

  int fd() const { return fd_.get(); }
  std::byte* data() const { return mapping_.data(); }
  uint64_t size() const { return mapping_.size(); }

 private:
  Payload(UniqueFd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace suture
