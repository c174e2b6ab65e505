#include "bus/token_ring.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "bus/memfd.h"

namespace suture {
namespace {

constexpr int kRingSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr uint64_t kLapMask = (1u << 24) - 1;

uint64_t ring_bytes(uint32_t capacity) {
  return sizeof(TokenRingHeaderData) + uint64_t{capacity} * sizeof(uint64_t);
}

uint64_t lap_of(uint64_t index, uint32_t capacity) { return index / capacity & kLapMask; }

uint64_t pack(int32_t id, uint8_t flags, uint64_t lap) {
  return lap << 40 | uint64_t{flags} << 32 | static_cast<uint32_t>(id);
}

RingToken unpack(uint64_t word, uint64_t index) {
  return RingToken{index, static_cast<int32_t>(static_cast<uint32_t>(word)),
                   static_cast<uint8_t>(word >> 32)};
}

}  // namespace

TokenRing::TokenRing(UniqueFd fd, Mapping mapping, uint32_t capacity)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), capacity_(capacity) {}

Result<std::shared_ptr<TokenRing>> TokenRing::create(uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxRingCapacity)
    return fail(ErrorCode::kInvalidArgument, fmt::format("token ring of {} entries", capacity),
                "bus");
  const uint64_t bytes = ring_bytes(capacity);
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, create_memfd("suture-tokens", bytes));
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping,
                          Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite));
  SUTURE_RETURN_IF_ERROR(seal_memfd(fd.get(), kRingSeals));
  std::shared_ptr<TokenRing> ring(new TokenRing(std::move(fd), std::move(mapping), capacity));
  ring->header().magic = kTokenRingMagic;
  ring->header().layout_version = kBusLayoutVersion;
  ring->header().capacity = capacity;
  return ring;
}

Result<std::shared_ptr<TokenRing>> TokenRing::attach(int fd) {
  SUTURE_ASSIGN_OR_RETURN(const uint64_t bytes, memfd_size(fd));
  SUTURE_RETURN_IF_ERROR(verify_memfd(fd, kRingSeals | F_SEAL_SEAL, bytes));
  if (bytes < sizeof(TokenRingHeaderData))
    return fail(ErrorCode::kCorrupt, fmt::format("token ring of {} bytes", bytes), "bus");
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::shared(fd, bytes, Mapping::Access::kReadWrite));
  // A copy, so that what is checked is what is used.
  TokenRingHeaderData header{};
  std::memcpy(static_cast<void*>(&header), mapping.data(), offsetof(TokenRingHeaderData, produced));
  if (header.magic != kTokenRingMagic)
    return fail(ErrorCode::kCorrupt, "the memory is not a token ring", "bus");
  if (header.layout_version != kBusLayoutVersion)
    return fail(ErrorCode::kIncompatible,
                fmt::format("bus layout version {}, this build has {}", header.layout_version,
                            kBusLayoutVersion),
                "bus", "run the same version of suture in all processes");
  if (header.capacity == 0 || header.capacity > kMaxRingCapacity ||
      bytes != ring_bytes(header.capacity))
    return fail(ErrorCode::kCorrupt,
                fmt::format("token ring of {} entries in {} bytes", header.capacity, bytes), "bus");
  return std::shared_ptr<TokenRing>(new TokenRing(UniqueFd(), std::move(mapping), header.capacity));
}

TokenRingHeaderData& TokenRing::header() const {
  return *reinterpret_cast<TokenRingHeaderData*>(mapping_.data());
}

std::atomic<uint64_t>& TokenRing::entry(uint64_t index) const {
  auto* first =
      reinterpret_cast<std::atomic<uint64_t>*>(mapping_.data() + sizeof(TokenRingHeaderData));
  return first[index % capacity_];
}

uint64_t TokenRing::produced() const {
  return header().produced.load(std::memory_order_acquire);  // entries below are visible
}

void TokenRing::grant(uint64_t tokens) {
  std::atomic<uint64_t>& credit = header().credit;
  uint64_t current = credit.load(std::memory_order_relaxed);
  // release: the doorbell's protocol asks for it.
  while (current < tokens &&
         !credit.compare_exchange_weak(current, tokens, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  ring_doorbell(header().credit_bell);
}

void TokenRing::cancel() {
  header().cancelled.store(1, std::memory_order_release);  // the doorbell's protocol asks for it
  ring_doorbell(header().credit_bell);
}

void TokenRing::mark_producer_lost() {
  uint32_t state = static_cast<uint32_t>(RingState::kRunning);
  // release: the doorbell's protocol asks for it. A ring that has finished stays finished.
  header().state.compare_exchange_strong(state, static_cast<uint32_t>(RingState::kLost),
                                         std::memory_order_release, std::memory_order_relaxed);
  ring_doorbell(header().token_bell);
}

TokenRingWriter::TokenRingWriter(std::shared_ptr<TokenRing> ring, uint64_t produced)
    : ring_(std::move(ring)), produced_(produced) {}

Result<TokenRingWriter> TokenRingWriter::open(std::shared_ptr<TokenRing> ring) {
  // For a predecessor that died between its last token, or the end, and the bell: consumers may be
  // asleep, and who grants credit would sleep on.
  ring_doorbell(ring->header().token_bell);
  const uint32_t state = ring->header().state.load(std::memory_order_acquire);
  if (state == static_cast<uint32_t>(RingState::kLost))
    return fail(ErrorCode::kLost, "the token ring's producer has died", "bus");
  if (state != static_cast<uint32_t>(RingState::kRunning))
    return fail(ErrorCode::kClosed, "the token ring has finished", "bus");
  const uint64_t produced = ring->produced();
  if (produced > uint64_t{1} << 62)
    return fail(ErrorCode::kCorrupt, fmt::format("a ring of {} tokens", produced), "bus");
  return TokenRingWriter(std::move(ring), produced);
}

Result<bool> TokenRingWriter::has_credit() const {
  const TokenRingHeaderData& header = ring_->header();
  // acquire: pairs with the consumer's release; nothing else travels with these two.
  if (header.cancelled.load(std::memory_order_acquire) != 0)
    return fail(ErrorCode::kCancelled, "a consumer wants no more tokens", "bus");
  const uint64_t credit = header.credit.load(std::memory_order_acquire);
  if (credit > produced_ + ring_->capacity())
    return fail(ErrorCode::kCorrupt,
                fmt::format("credit for {} tokens after {}, the ring holds {}", credit, produced_,
                            ring_->capacity()),
                "bus");
  return credit > produced_;
}

DoorbellData& TokenRingWriter::doorbell() const { return ring_->header().credit_bell; }

Status TokenRingWriter::wait_credit(Deadline deadline) {
  Result<bool> credit = false;
  const bool in_time = wait_for_doorbell(ring_->header().credit_bell, deadline, [&] {
    credit = has_credit();
    return !credit.has_value() || *credit;
  });
  if (!credit) return tl::unexpected<Error>(credit.error());
  if (!in_time)
    return fail(ErrorCode::kTimeout, fmt::format("no credit beyond {} tokens in time", produced_),
                "bus");
  return {};
}

Status TokenRingWriter::push(int32_t id, uint8_t flags) {
  SUTURE_CHECK(!finished_, "token {} after the end", id);
  SUTURE_ASSIGN_OR_RETURN(const bool credit, has_credit());
  if (!credit)
    return fail(ErrorCode::kInvalidArgument, fmt::format("no credit for token {}", produced_),
                "bus");
  // relaxed: published by the release of `produced`. A reader a whole lap behind may see the word
  // earlier and then sees its lap.
  ring_->entry(produced_).store(pack(id, flags, lap_of(produced_, ring_->capacity())),
                                std::memory_order_relaxed);
  ring_->header().produced.store(++produced_, std::memory_order_release);
  ring_doorbell(ring_->header().token_bell);
  return {};
}

void TokenRingWriter::finish(uint32_t reason) {
  SUTURE_CHECK(!finished_, "finished twice, reason {}", reason);
  finished_ = true;
  ring_->header().reason.store(reason, std::memory_order_relaxed);  // published by the state
  // release: after all tokens and the reason.
  ring_->header().state.store(static_cast<uint32_t>(RingState::kFinished),
                              std::memory_order_release);
  ring_doorbell(ring_->header().token_bell);
}

TokenRingReader::TokenRingReader(std::shared_ptr<TokenRing> ring, uint64_t start)
    : ring_(std::move(ring)), cursor_(start) {}

Result<std::optional<RingToken>> TokenRingReader::try_next() {
  // The state first: it is written after the last token, so if it says the end, `produced` read
  // after it is final. acquire for that order.
  const uint32_t state = ring_->header().state.load(std::memory_order_acquire);
  const uint64_t produced = ring_->produced();
  if (produced > cursor_) {
    const uint64_t word = ring_->entry(cursor_).load(std::memory_order_relaxed);
    const uint64_t lap = lap_of(cursor_, ring_->capacity());
    if (produced - cursor_ > ring_->capacity() || word >> 40 != lap)
      return fail(ErrorCode::kStaleGeneration,
                  fmt::format("token {} was overwritten, {} are produced, the ring holds {}",
                              cursor_, produced, ring_->capacity()),
                  "bus");
    return unpack(word, cursor_++);
  }
  switch (static_cast<RingState>(state)) {
    case RingState::kRunning: return fail(ErrorCode::kTimeout, "no token yet", "bus");
    case RingState::kFinished: return std::nullopt;
    case RingState::kLost:
      return fail(ErrorCode::kLost, "the token ring's producer has died", "bus");
  }
  return fail(ErrorCode::kCorrupt, fmt::format("token ring in state {}", state), "bus");
}

Result<std::optional<RingToken>> TokenRingReader::wait_next(Deadline deadline) {
  const auto ready = [&] {
    // relaxed and acquire as in try_next, which decides.
    return ring_->produced() > cursor_ || ring_->header().state.load(std::memory_order_acquire) !=
                                              static_cast<uint32_t>(RingState::kRunning);
  };
  wait_for_doorbell(ring_->header().token_bell, deadline, ready);
  return try_next();
}

DoorbellData& TokenRingReader::doorbell() const { return ring_->header().token_bell; }

uint32_t TokenRingReader::finish_reason() const {
  // relaxed: the state that said so was read with acquire.
  return ring_->header().reason.load(std::memory_order_relaxed);
}

}  // namespace suture
