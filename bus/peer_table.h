// Who takes part in a launch and what each has published. Bookkeeping only: no sockets, no clocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bus/control.h"
#include "bus/ids.h"

namespace suture {

// kInvalidArgument unless it is 1 to 63 printable characters: names end up in logs and on
// terminals.
Status check_name(const std::string& name);

class PeerTable {
 public:
  struct SlabFds {
    PeerId owner;
    int payload = -1;
    int control = -1;
  };

  // A new id for a new peer. kInvalidArgument for a name that is not 1 to 63 printable characters,
  // kBusy if a live peer has it.
  Result<PeerId> join(const std::string& name);

  // The descriptors come from another process: whatever is not a sealed slab of `peer` is refused.
  Status publish_slab(PeerId peer, UniqueFd payload, UniqueFd control);
  Result<SlabFds> find_slab(const std::string& owner_name) const;

  Status publish_ring(PeerId peer, const std::string& name, UniqueFd ring);
  Result<int> find_ring(const std::string& name) const;
  Status withdraw_ring(PeerId peer, const std::string& name);

  // Moves as long as the peer does anything; nothing before it has published its slab.
  std::optional<uint64_t> activity(PeerId peer) const;

  // The peer is gone and touches no shared memory any more: its streams and rings become lost and
  // their waiters wake, its leases everywhere are dropped, its names are free.
  void end(PeerId peer);

 private:
  struct PublishedSlab {
    UniqueFd payload;
    UniqueFd control_fd;
    Control control;  // the broker's own mapping
  };
  struct Peer {
    std::string name;
    std::optional<PublishedSlab> slab;
  };
  struct PublishedRing {
    PeerId owner;
    UniqueFd fd;
  };

  std::map<PeerId, Peer> peers_;
  std::map<std::string, PeerId> names_;
  std::map<std::string, PublishedRing> rings_;
  uint64_t next_id_ = 1;
};

}  // namespace suture
