#include "bus/blob_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "bus/peer_table.h"
#include "bus/shared_blob.h"

namespace suture {
namespace {

constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 42;
constexpr size_t kMaxBlobsOfPeer =
    8;  // three descriptors each that a peer can make the broker hold

bool contains(const std::vector<PeerId>& peers, PeerId peer) {
  return std::ranges::find(peers, peer) != peers.end();
}

void add(std::vector<PeerId>& peers, PeerId peer) {
  if (!contains(peers, peer)) peers.push_back(peer);
}

}  // namespace

Result<BlobTable::Turn> BlobTable::begin_turn(PeerId builder, Time now) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Turn{builder, now, false, UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Status BlobTable::check_share(PeerId peer) const {
  const auto count = std::ranges::count_if(blobs_, [&](const auto& entry) {
    const Blob& blob = entry.second;
    return contains(blob.holders, peer) || contains(blob.waiting, peer) ||
           (blob.turn && blob.turn->builder == peer);
  });
  if (static_cast<size_t>(count) < kMaxBlobsOfPeer) return {};
  return fail(ErrorCode::kBusy, fmt::format("the peer shares {} blobs already", kMaxBlobsOfPeer));
}

Result<BlobTable::Answer> BlobTable::find(PeerId peer, const BlobName& name, Time now) {
  SUTURE_RETURN_IF_ERROR(check_name(name.key));
  if (name.bytes == 0 || name.bytes > kMaxBlobBytes)
    return fail(ErrorCode::kInvalidArgument, fmt::format("blob of {} bytes", name.bytes));
  const auto found = blobs_.find(name);
  if (found == blobs_.end()) {
    SUTURE_RETURN_IF_ERROR(check_share(peer));
    SUTURE_ASSIGN_OR_RETURN(Turn turn, begin_turn(peer, now));
    turn.told = true;
    blobs_[name].turn = std::move(turn);
    return Answer{BlobState::kBuild};
  }
  Blob& blob = found->second;
  if (blob.turn && blob.turn->builder == peer && !std::exchange(blob.turn->told, true))
    return Answer{BlobState::kBuild};
  const bool takes_part = contains(blob.holders, peer) || contains(blob.waiting, peer) ||
                          (blob.turn && blob.turn->builder == peer);
  if (!takes_part) SUTURE_RETURN_IF_ERROR(check_share(peer));
  if (blob.fd.valid()) {
    add(blob.holders, peer);
    return Answer{BlobState::kReady, blob.fd.get()};
  }
  if (blob.turn->builder != peer) add(blob.waiting, peer);
  return Answer{BlobState::kWait, blob.turn->awaited.get()};
}

Status BlobTable::publish(PeerId peer, const BlobName& name, UniqueFd fd, Time now) {
  const auto found = blobs_.find(name);
  if (found == blobs_.end() || !found->second.turn || found->second.turn->builder != peer)
    return fail(ErrorCode::kPermission,
                fmt::format("blob '{}' is not this peer's to build", name.key));
  Blob& blob = found->second;
  if (const Status sound = check_shared_blob(fd.get(), name.bytes); !sound) {
    leave(peer, name, now);
    return sound;
  }
  blob.fd = std::move(fd);
  // Who waits will ask again, and finds it even if its builder is gone by then.
  blob.holders = std::move(blob.waiting);
  blob.waiting.clear();
  add(blob.holders, peer);
  blob.turn.reset();
  return {};
}

void BlobTable::end_turn(Blob& blob, Time now) {
  blob.turn.reset();
  while (!blob.waiting.empty() && !blob.turn) {
    const PeerId next = blob.waiting.front();
    blob.waiting.erase(blob.waiting.begin());
    // Without a descriptor left for it, it hears when it asks again.
    if (auto turn = begin_turn(next, now)) blob.turn = std::move(*turn);
  }
}

bool BlobTable::remove(PeerId peer, Blob& blob, Time now) {
  std::erase(blob.holders, peer);
  std::erase(blob.waiting, peer);
  if (blob.turn && blob.turn->builder == peer) end_turn(blob, now);
  return blob.holders.empty() && !blob.turn;
}

void BlobTable::leave(PeerId peer, const BlobName& name, Time now) {
  const auto found = blobs_.find(name);
  if (found != blobs_.end() && remove(peer, found->second, now)) blobs_.erase(found);
}

void BlobTable::leave_all(PeerId peer, Time now) {
  for (auto at = blobs_.begin(); at != blobs_.end();)
    at = remove(peer, at->second, now) ? blobs_.erase(at) : std::next(at);
}

void BlobTable::end_turns_before(Time limit, Time now) {
  for (auto at = blobs_.begin(); at != blobs_.end();) {
    Blob& blob = at->second;
    const bool too_long = blob.turn && blob.turn->since < limit;
    at = too_long && remove(blob.turn->builder, blob, now) ? blobs_.erase(at) : std::next(at);
  }
}

}  // namespace suture
