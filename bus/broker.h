// The one meeting point of a launch: peers say who they are, hand over the descriptors
// of their mappings and token rings, and are watched until they end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "bus/ids.h"
#include "bus/peer_rights.h"

namespace suture {

enum class PeerEnd {
  kExited,   // its process ended by itself, or somebody else killed it
  kStopped,  // stopped by a signal and left so: the broker killed it
  kHung,     // neither heartbeat nor any committed counter moved: the broker killed it
};

// "exited", "stopped" or "hung".
std::string_view peer_end_name(PeerEnd end);

struct BrokerOptions {
  std::string secret;  // what every peer must show, 1 to 128 bytes
  // Who may join and do what; without it, any name may join and do everything.
  std::optional<RightsByName> rights = {};

  std::chrono::milliseconds look_interval{1000};  // between two looks at every peer's process
  std::chrono::milliseconds hung_after{30'000};   // without any progress
  std::chrono::milliseconds hello_bound{2000};    // from connecting to showing the secret
  // For building a shared blob, while others wait for it; then it is the next one's turn. Who is
  // stopped or hangs is killed long before.
  std::chrono::milliseconds blob_bound{600'000};

  // Both run on the broker's thread: they must be quick, and must not call a BrokerClient, whose
  // answers that very thread would have to give.
  //
  // The peer's process is gone. Its streams are marked lost and its leases are dropped by now, its
  // rings are withdrawn, and its name is free again.
  std::function<void(PeerId, const std::string& name, PeerEnd, const std::string& detail)>
      on_peer_end;
  std::function<void(PeerId, const std::string& name, pid_t)> on_peer_joined;
};

class BrokerLoop;

// Peers of the broker's own process (placement "in-process") share its pid: they are never watched
// or killed, and end when they disconnect. Any other peer ends when its process does, not before:
// as long as that runs, it may read or write what it has mapped, connected or not.
class Broker {
 public:
  static Result<std::unique_ptr<Broker>> start(BrokerOptions options);
  // Stops the thread and hangs up on every peer.
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Name of an abstract Unix socket with 128 random bits: nothing of it lies in the file system.
  std::string address() const;

 private:
  explicit Broker(std::unique_ptr<BrokerLoop> loop);

  std::unique_ptr<BrokerLoop> loop_;
};

}  // namespace suture
