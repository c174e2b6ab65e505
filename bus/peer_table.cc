#include "bus/peer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "bus/payload.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxRings = 4096;  // descriptors that peers can make the broker hold

}  // namespace

Status check_name(const std::string& name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
  });
  if (printable && !name.empty() && name.size() <= kMaxNameBytes) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("name of {} bytes is not 1 to {} printable characters", name.size(),
                          kMaxNameBytes));
}

Result<PeerId> PeerTable::join(const std::string& name) {
  SUTURE_RETURN_IF_ERROR(check_name(name));
  if (names_.contains(name)) {
    return fail(ErrorCode::kBusy, fmt::format("a live peer is called '{}' already", name));
  }
  const PeerId peer{next_id_++};
  peers_[peer].name = name;
  names_[name] = peer;
  return peer;
}

Status PeerTable::publish_slab(PeerId peer, UniqueFd payload, UniqueFd control_fd) {
  auto& slab = peers_.at(peer).slab;
  if (slab) return fail(ErrorCode::kBusy, "the peer has published its slab already");
  SUTURE_ASSIGN_OR_RETURN(Control control, Control::attach(control_fd.get()));
  if (control.owner() != peer) {
    return fail(ErrorCode::kCorrupt, fmt::format("slab of peer {} published by peer {}",
                                                 control.owner().value, peer.value));
  }
  SUTURE_RETURN_IF_ERROR(Payload::open_read_only(payload.get(), control.payload_bytes()));
  slab = PublishedSlab{std::move(payload), std::move(control_fd), std::move(control)};
  return {};
}

Result<PeerTable::SlabFds> PeerTable::find_slab(const std::string& owner_name) const {
  const auto owner = names_.find(owner_name);
  if (owner == names_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("no live peer is called '{}'", owner_name));
  }
  const auto& slab = peers_.at(owner->second).slab;
  if (!slab) {
    return fail(ErrorCode::kNotFound,
                fmt::format("peer '{}' has not published a slab", owner_name));
  }
  return SlabFds{owner->second, slab->payload.get(), slab->control_fd.get()};
}

Status PeerTable::publish_ring(PeerId peer, const std::string& name, UniqueFd ring) {
  SUTURE_RETURN_IF_ERROR(check_name(name));
  if (rings_.contains(name)) {
    return fail(ErrorCode::kBusy, fmt::format("a ring is called '{}' already", name));
  }
  if (rings_.size() >= kMaxRings) {
    return fail(ErrorCode::kOutOfMemory, fmt::format("{} rings are published", kMaxRings));
  }
  SUTURE_RETURN_IF_ERROR(TokenRing::attach(ring.get()));
  rings_[name] = {peer, std::move(ring)};
  return {};
}

Result<int> PeerTable::find_ring(const std::string& name) const {
  const auto found = rings_.find(name);
  if (found == rings_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("no ring is called '{}'", name));
  }
  return found->second.fd.get();
}

Status PeerTable::withdraw_ring(PeerId peer, const std::string& name) {
  const auto found = rings_.find(name);
  if (found == rings_.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("no ring is called '{}'", name));
  }
  if (found->second.owner != peer) {
    return fail(ErrorCode::kPermission, fmt::format("ring '{}' is another peer's", name));
  }
  rings_.erase(found);
  return {};
}

std::optional<uint64_t> PeerTable::activity(PeerId peer) const {
  const auto& slab = peers_.at(peer).slab;
  if (!slab) return std::nullopt;
  return slab->control.activity();
}

void PeerTable::end(PeerId peer) {
  const auto ended = peers_.extract(peer);
  SUTURE_CHECK(!ended.empty(), "peer={}", peer.value);
  if (ended.mapped().slab) ended.mapped().slab->control.mark_owner_lost();
  std::erase_if(rings_, [&](const auto& entry) {
    if (entry.second.owner != peer) return false;
    // It was sound when published, and nobody can shrink it.
    if (const auto ring = TokenRing::attach(entry.second.fd.get())) (*ring)->mark_producer_lost();
    return true;
  });
  for (const auto& [id, other] : peers_) {
    if (other.slab) other.slab->control.drop_leases_of(peer);
  }
  names_.erase(ended.mapped().name);
}

}  // namespace suture
