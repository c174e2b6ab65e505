#include "bench/torture/board.h"

#include <chrono>

namespace suture::torture {

// Every store that follows the odd version is a release, and every load before the second look at
// it an acquire: whoever sees a part of the change also sees that there is one.
void write_ref(StreamRefData& data, const StreamRef& ref) {
  // A predecessor may have been killed in the middle, and left it odd.
  const uint64_t odd = data.version.load(std::memory_order_relaxed) | 1;
  data.version.store(odd, std::memory_order_relaxed);
  data.owner.store(ref.owner.value, std::memory_order_release);
  data.generation.store(ref.id.generation, std::memory_order_release);
  data.parent_generation.store(ref.parent_generation, std::memory_order_release);
  data.slot.store(ref.id.slot, std::memory_order_release);
  data.prefix.store(static_cast<uint32_t>(ref.prefix), std::memory_order_release);
  data.version.store(odd + 1, std::memory_order_release);
}

std::optional<StreamRef> read_ref(const StreamRefData& data) {
  const uint64_t version = data.version.load(std::memory_order_acquire);
  if (version == 0 || version % 2 != 0) return std::nullopt;
  StreamRef ref;
  ref.owner.value = data.owner.load(std::memory_order_acquire);
  ref.id.generation = data.generation.load(std::memory_order_acquire);
  ref.parent_generation = data.parent_generation.load(std::memory_order_acquire);
  ref.id.slot = data.slot.load(std::memory_order_acquire);
  ref.prefix = data.prefix.load(std::memory_order_acquire);
  if (data.version.load(std::memory_order_relaxed) != version) return std::nullopt;
  return ref;
}

void EventData::set(PeerId who) {
  ns.store(now_ns(), std::memory_order_relaxed);  // published by `peer`
  peer.store(who.value, std::memory_order_release);
}

bool EventData::happened_to(PeerId who) const {
  return peer.load(std::memory_order_acquire) == who.value;
}

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace suture::torture
