// Tokens of one answer, on the bus: one producer (the master), many consumers (slaves, the
// coordinator). The coordinator grants credit, the producer stops where it ends. No message is
// needed per token.
//
// An entry is one 64-bit word: token id (32 bits), flags (8), lap (24). A reader that falls a whole
// capacity behind finds another lap and reports it. Size the ring for the longest answer and
// nothing is ever overwritten.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"
#include "bus/doorbell.h"
#include "bus/layout.h"

namespace suture {

struct RingToken {
  uint64_t index = 0;  // of this token in the answer
  int32_t id = 0;
  uint8_t flags = 0;  // meaning belongs to the caller

  bool operator==(const RingToken&) const = default;
};

// One mapping of a ring. Producer and consumers of one process may share it.
class TokenRing {
 public:
  // A new ring of `capacity` entries (1 .. kMaxRingCapacity), sealed SHRINK | GROW.
  static Result<std::shared_ptr<TokenRing>> create(uint32_t capacity);
  // A ring received from another process; `fd` stays the caller's.
  static Result<std::shared_ptr<TokenRing>> attach(int fd);

  int fd() const { return fd_.get(); }  // -1 after attach
  uint32_t capacity() const { return capacity_; }
  uint64_t produced() const;

  // Consumer: the producer may push tokens with index < `tokens`. Never takes credit back.
  void grant(uint64_t tokens);
  // Consumer: the producer's next wait for credit ends with kCancelled.
  void cancel();
  // Broker or supervisor, once the producer has exited: consumers get what was pushed, then kLost.
  void mark_producer_lost();

 private:
  friend class TokenRingWriter;
  friend class TokenRingReader;

  TokenRing(UniqueFd fd, Mapping mapping, uint32_t capacity);

  TokenRingHeaderData& header() const;
  std::atomic<uint64_t>& entry(uint64_t index) const;

  UniqueFd fd_;
  Mapping mapping_;
  uint32_t capacity_ = 0;
};

// The one producer. Used by one thread at a time.
class TokenRingWriter {
 public:
  // Continues where the ring stands, so that a restarted producer neither repeats nor skips.
  // kCorrupt if the ring contradicts itself.
  static Result<TokenRingWriter> open(std::shared_ptr<TokenRing> ring);

  // Until there is credit for one more token. kTimeout, kCancelled; kCorrupt if the credit is out
  // of range (more than one capacity ahead).
  Status wait_credit(Deadline deadline);
  // Needs credit: kInvalidArgument without.
  Status push(int32_t id, uint8_t flags = 0);
  // No more tokens. `reason` reaches the consumers.
  void finish(uint32_t reason);

  // Until there is credit for one more token this says false; it never waits. Errors as
  // wait_credit.
  Result<bool> has_credit() const;
  // Rung when there is more credit, or nobody wants more tokens.
  DoorbellData& doorbell() const;

  uint64_t produced() const { return produced_; }

 private:
  explicit TokenRingWriter(std::shared_ptr<TokenRing> ring, uint64_t produced);

  std::shared_ptr<TokenRing> ring_;
  uint64_t produced_ = 0;  // the producer never trusts the shared copy
  bool finished_ = false;
};

// A consumer with a cursor of its own, in its own memory. Used by one thread at a time.
class TokenRingReader {
 public:
  // Reads from token `start` on.
  explicit TokenRingReader(std::shared_ptr<TokenRing> ring, uint64_t start = 0);

  // The next token; nothing when the producer has finished and all was read. kTimeout; kLost if the
  // producer died; kStaleGeneration if the token was overwritten; kCorrupt.
  Result<std::optional<RingToken>> wait_next(Deadline deadline);
  // As wait_next, but never waits: kTimeout if there is no token yet.
  Result<std::optional<RingToken>> try_next();

  uint64_t cursor() const { return cursor_; }
  uint32_t finish_reason() const;  // meaningful after wait_next gave nothing
  const std::shared_ptr<TokenRing>& ring() const { return ring_; }
  // Rung when there are more tokens, or none will come.
  DoorbellData& doorbell() const;

 private:
  std::shared_ptr<TokenRing> ring_;
  uint64_t cursor_ = 0;
};

}  // namespace suture
