// The blobs that peers share (bus/shared_blob.h): who builds, awaits and holds each. Bookkeeping
// only: no sockets, no clock.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bus/broker_wire.h"
#include "bus/ids.h"

namespace suture {

// Blobs of another size are other blobs: who asks for a wrong size disturbs nobody.
struct BlobName {
  std::string key;
  uint64_t bytes = 0;

  auto operator<=>(const BlobName&) const = default;  // NOLINT(modernize-use-nullptr): clang 14
};

// A blob lives as long as a peer that holds it. The first to ask builds it; whoever asks meanwhile
// waits in line, and when the builder fails, leaves, or takes too long, the next in line builds. So
// a peer can keep the others waiting only for so long, and then stands behind them.
class BlobTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Answer {
    BlobState state = BlobState::kNone;
    int fd = -1;  // still the table's
  };

  // kInvalidArgument for a key that is not 1 to 63 printable characters or an impossible size,
  // kBusy if the peer has its share of blobs already.
  Result<Answer> find(PeerId peer, const BlobName& name, Time now);
  // kPermission if it is not this peer's turn to build. A descriptor that is not a sealed blob of
  // this size is refused, and ends the turn.
  Status publish(PeerId peer, const BlobName& name, UniqueFd blob, Time now);
  // It gives up building, waiting for or holding the blob.
  void leave(PeerId peer, const BlobName& name, Time now);
  void leave_all(PeerId peer, Time now);
  // Ends the turn of those who began before `limit`.
  void end_turns_before(Time limit, Time now);

  size_t size() const { return blobs_.size(); }

 private:
  // One peer's turn at building. Whoever waits has the reading end of a pipe that nobody writes to:
  // it hangs up when the turn ends, and also if the whole table does.
  struct Turn {
    PeerId builder;
    Time since;
    bool told = false;  // it has asked and heard that it is to build
    UniqueFd awaited;
    UniqueFd end;
  };
  struct Blob {
    UniqueFd fd;  // invalid until it is built
    std::optional<Turn> turn;
    std::vector<PeerId> waiting;  // in the order in which they asked
    std::vector<PeerId> holders;
  };
  using Blobs = std::map<BlobName, Blob>;

  static Result<Turn> begin_turn(PeerId builder, Time now);
  Status check_share(PeerId peer) const;
  // Gives the turn to the next in line, if there is one.
  static void end_turn(Blob& blob, Time now);
  // Takes the peer off the blob; true if nobody is left to keep it for.
  static bool remove(PeerId peer, Blob& blob, Time now);

  Blobs blobs_;
};

}  // namespace suture
