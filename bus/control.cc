#include "bus/control.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "bus/doorbell.h"
#include "bus/memfd.h"

namespace suture {
namespace {

constexpr int kControlSeals = F_SEAL_SHRINK | F_SEAL_GROW;

struct Offsets {
  uint64_t streams = 0;
  uint64_t committed = 0;
  uint64_t leases = 0;
  uint64_t tables = 0;
  uint64_t epochs = 0;
  uint64_t control_bytes = 0;
  uint64_t payload_bytes = 0;
};

Status check_counts(const ControlOptions& options) {
  const KvShape& shape = options.shape;
  const auto in_range = [](int64_t value, int64_t highest) {
    return 1 <= value && value <= highest;
  };
  const bool ok = in_range(shape.n_layers, kMaxLayers) && in_range(shape.n_kv_heads, kMaxKvHeads) &&
                  in_range(shape.head_dim, kMaxHeadDim) && in_range(options.n_blocks, kMaxBlocks) &&
                  in_range(options.max_streams, kMaxStreams) &&
                  in_range(options.max_blocks_per_stream, kMaxBlocksPerStream) &&
                  options.max_blocks_per_stream <= options.n_blocks;
  if (!ok)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("slab of {} layers, {} kv heads, head dim {}, {} blocks, {} streams, "
                            "{} blocks a stream",
                            shape.n_layers, shape.n_kv_heads, shape.head_dim, options.n_blocks,
                            options.max_streams, options.max_blocks_per_stream),
                "bus");
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kBf16)
    return fail(ErrorCode::kUnsupported,
                fmt::format("K/V of type {}", static_cast<int>(shape.dtype)), "bus");
  return {};
}

uint64_t to_cache_line(uint64_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Where each array starts, from counts that check_counts() accepted: their bounds keep every sum
// and product below 2^52.
Result<Offsets> offsets_for(const ControlOptions& options) {
  const uint64_t streams = options.max_streams;
  const uint64_t layers = static_cast<uint64_t>(options.shape.n_layers);
  Offsets at;
  at.streams = sizeof(ControlHeaderData);
  at.committed = at.streams + streams * sizeof(StreamSlotData);
  at.leases = at.committed + to_cache_line(streams * layers * sizeof(uint64_t));
  at.tables = at.leases + streams * kLeasesPerStream * sizeof(uint64_t);
  at.epochs = at.tables + to_cache_line(streams * options.max_blocks_per_stream * sizeof(uint32_t));
  at.control_bytes = at.epochs + streams * options.max_blocks_per_stream *
                                     static_cast<uint64_t>(kKvBlockTokens) * sizeof(uint32_t);
  const auto payload_bytes = checked_product(
      {layers, options.n_blocks, static_cast<uint64_t>(options.shape.block_bytes())});
  if (!payload_bytes)
    return fail(ErrorCode::kInvalidArgument, "the payload exceeds 64 bits", "bus");
  at.payload_bytes = *payload_bytes;
  return at;
}

ControlOptions options_from(const ControlHeaderData& header) {
  ControlOptions options;
  options.shape.n_layers = static_cast<int32_t>(header.n_layers);
  options.shape.n_kv_heads = static_cast<int32_t>(header.n_kv_heads);
  options.shape.head_dim = static_cast<int32_t>(header.head_dim);
  options.shape.dtype = static_cast<DType>(header.dtype);
  options.n_blocks = header.n_blocks;
  options.max_streams = header.max_streams;
  options.max_blocks_per_stream = header.max_blocks_per_stream;
  options.owner = PeerId{header.owner_peer};
  return options;
}

void write_header(ControlHeaderData& header, const ControlOptions& options, const Offsets& at) {
  header.magic = kControlMagic;
  header.layout_version = kBusLayoutVersion;
  header.dtype = static_cast<uint32_t>(options.shape.dtype);
  header.n_layers = static_cast<uint32_t>(options.shape.n_layers);
  header.n_kv_heads = static_cast<uint32_t>(options.shape.n_kv_heads);
  header.head_dim = static_cast<uint32_t>(options.shape.head_dim);
  header.n_blocks = options.n_blocks;
  header.max_streams = options.max_streams;
  header.max_blocks_per_stream = options.max_blocks_per_stream;
  header.owner_peer = options.owner.value;
  header.payload_bytes = at.payload_bytes;
  header.control_bytes = at.control_bytes;
}

Status check_header(const ControlHeaderData& header) {
  if (header.magic != kControlMagic)
    return fail(ErrorCode::kCorrupt, "the memory is not a slab's control memory", "bus");
  if (header.layout_version != kBusLayoutVersion)
    return fail(ErrorCode::kIncompatible,
                fmt::format("bus layout version {}, this build has {}", header.layout_version,
                            kBusLayoutVersion),
                "bus", "run the same version of suture in all processes");
  if (header.dtype >= kDTypes)
    return fail(ErrorCode::kCorrupt, fmt::format("K/V of type {}", header.dtype), "bus");
  return {};
}

}  // namespace

Control::Control(UniqueFd fd, Mapping mapping, const ControlOptions& options)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), options_(options) {
  const Offsets at = offsets_for(options).value();
  payload_bytes_ = at.payload_bytes;
  streams_offset_ = at.streams;
  committed_offset_ = at.committed;
  leases_offset_ = at.leases;
  tables_offset_ = at.tables;
  epochs_offset_ = at.epochs;
}

Result<Control> Control::create(const ControlOptions& options) {
  SUTURE_RETURN_IF_ERROR(check_counts(options));
  SUTURE_ASSIGN_OR_RETURN(const Offsets at, offsets_for(options));
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, create_memfd("suture-control", at.control_bytes));
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping,
                          Mapping::shared(fd.get(), at.control_bytes, Mapping::Access::kReadWrite));
  SUTURE_RETURN_IF_ERROR(seal_memfd(fd.get(), kControlSeals));
  Control control(std::move(fd), std::move(mapping), options);
  write_header(control.header(), options, at);
  return control;
}

Result<uint64_t> Control::memory_bytes_for(const ControlOptions& options) {
  SUTURE_RETURN_IF_ERROR(check_counts(options));
  SUTURE_ASSIGN_OR_RETURN(const Offsets at, offsets_for(options));
  return at.control_bytes + at.payload_bytes;
}

Result<Control> Control::attach(int fd) {
  SUTURE_ASSIGN_OR_RETURN(const uint64_t bytes, memfd_size(fd));
  SUTURE_RETURN_IF_ERROR(verify_memfd(fd, kControlSeals | F_SEAL_SEAL, bytes));
  if (bytes < sizeof(ControlHeaderData))
    return fail(ErrorCode::kCorrupt, fmt::format("control memory of {} bytes", bytes), "bus");
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::shared(fd, bytes, Mapping::Access::kReadWrite));
  // A copy, so that what is checked is what is used even if another process writes meanwhile.
  ControlHeaderData header{};
  std::memcpy(static_cast<void*>(&header), mapping.data(), offsetof(ControlHeaderData, heartbeat));
  SUTURE_RETURN_IF_ERROR(check_header(header));
  const ControlOptions options = options_from(header);
  SUTURE_RETURN_IF_ERROR(check_counts(options));
  SUTURE_ASSIGN_OR_RETURN(const Offsets at, offsets_for(options));
  if (at.control_bytes != bytes || header.control_bytes != bytes ||
      header.payload_bytes != at.payload_bytes)
    return fail(ErrorCode::kCorrupt,
                fmt::format("control memory of {} bytes states {}, its counts need {}", bytes,
                            header.control_bytes, at.control_bytes),
                "bus");
  return Control(UniqueFd(), std::move(mapping), options);
}

ControlHeaderData& Control::header() const {
  return *reinterpret_cast<ControlHeaderData*>(mapping_.data());
}

StreamSlotData& Control::stream(uint32_t slot) const {
  SUTURE_CHECK(slot < options_.max_streams, "slot={} of {}", slot, options_.max_streams);
  return reinterpret_cast<StreamSlotData*>(mapping_.data() + streams_offset_)[slot];
}

std::span<std::atomic<uint64_t>> Control::committed(uint32_t slot) const {
  SUTURE_CHECK(slot < options_.max_streams, "slot={} of {}", slot, options_.max_streams);
  const size_t layers = static_cast<size_t>(options_.shape.n_layers);
  auto* first = reinterpret_cast<std::atomic<uint64_t>*>(mapping_.data() + committed_offset_);
  return {first + slot * layers, layers};
}

std::span<std::atomic<uint64_t>> Control::leases(uint32_t slot) const {
  SUTURE_CHECK(slot < options_.max_streams, "slot={} of {}", slot, options_.max_streams);
  auto* first = reinterpret_cast<std::atomic<uint64_t>*>(mapping_.data() + leases_offset_);
  return {first + static_cast<size_t>(slot) * kLeasesPerStream, kLeasesPerStream};
}

std::span<std::atomic<uint32_t>> Control::epochs(uint32_t slot) const {
  SUTURE_CHECK(slot < options_.max_streams, "slot={} of {}", slot, options_.max_streams);
  const size_t entries =
      static_cast<size_t>(options_.max_blocks_per_stream) * static_cast<size_t>(kKvBlockTokens);
  auto* first = reinterpret_cast<std::atomic<uint32_t>*>(mapping_.data() + epochs_offset_);
  return {first + slot * entries, entries};
}

std::span<std::atomic<uint32_t>> Control::block_table(uint32_t slot) const {
  SUTURE_CHECK(slot < options_.max_streams, "slot={} of {}", slot, options_.max_streams);
  auto* first = reinterpret_cast<std::atomic<uint32_t>*>(mapping_.data() + tables_offset_);
  return {first + static_cast<size_t>(slot) * options_.max_blocks_per_stream,
          options_.max_blocks_per_stream};
}

bool Control::has_lease(uint32_t slot) const {
  // seq_cst: a reader writes its lease and then reads the state, the owner writes the state and
  // then reads the leases; in one order of all four at least one sees the other.
  return std::ranges::any_of(leases(slot), [](const std::atomic<uint64_t>& lease) {
    return lease.load(std::memory_order_seq_cst) != 0;
  });
}

OwnerFiguresData& Control::figures() const { return header().figures; }

void Control::heartbeat() const {
  // relaxed: the value itself is the message.
  header().heartbeat.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Control::heartbeats() const { return header().heartbeat.load(std::memory_order_relaxed); }

uint64_t Control::activity() const {
  uint64_t sum = heartbeats();
  // relaxed: only compared with an earlier sum.
  for (uint32_t slot = 0; slot < options_.max_streams; ++slot)
    sum += stream(slot).doorbell.bell.load(std::memory_order_relaxed);
  return sum;
}

OwnerState Control::owner_state() const {
  // acquire: pairs with the store in mark_owner_lost.
  return header().owner_state.load(std::memory_order_acquire) == 0 ? OwnerState::kAlive
                                                                   : OwnerState::kLost;
}

void Control::mark_owner_lost() const {
  header().owner_state.store(static_cast<uint32_t>(OwnerState::kLost), std::memory_order_release);
  for (uint32_t slot = 0; slot < options_.max_streams; ++slot) {
    StreamSlotData& data = stream(slot);
    uint32_t state = static_cast<uint32_t>(StreamState::kOpen);
    // seq_cst like every change of state: ordered with the readers' leases and waits.
    data.state.compare_exchange_strong(state, static_cast<uint32_t>(StreamState::kLost),
                                       std::memory_order_seq_cst);
    ring_doorbell(data.doorbell);
  }
}

uint32_t Control::drop_leases_of(PeerId peer) const {
  SUTURE_CHECK(peer.valid(), "peer={}", peer.value);
  uint32_t dropped = 0;
  for (uint32_t slot = 0; slot < options_.max_streams; ++slot) {
    for (std::atomic<uint64_t>& lease : leases(slot)) {
      uint64_t holder = peer.value;
      // seq_cst as in has_lease(). The peer has exited, so its reads are over.
      if (lease.compare_exchange_strong(holder, 0, std::memory_order_seq_cst)) ++dropped;
    }
  }
  return dropped;
}

}  // namespace suture
