// The broker's thread: accepts peers, answers them, looks after them. Private to broker.cc.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bus/blob_table.h"
#include "bus/broker.h"
#include "bus/broker_wire.h"
#include "bus/fd_channel.h"
#include "bus/liveness.h"
#include "bus/peer_table.h"
#include "bus/warning_limit.h"

namespace suture {

// Waits in one place, for everything; nothing else blocks. All members belong to the thread once it
// runs.
class BrokerLoop {
 public:
  static Result<std::unique_ptr<BrokerLoop>> start(BrokerOptions options);
  ~BrokerLoop();

  const std::string& address() const { return listener_.address; }

 private:
  using Clock = std::chrono::steady_clock;

  // What an epoll event is about: a kind, and an id that is never used again, so that an event
  // about something that ended in the meantime finds nothing.
  enum class Source : uint64_t { kStop, kListener, kConnection, kProcess };
  static uint64_t event_key(Source source, uint64_t id) {
    return id << 2 | static_cast<uint64_t>(source);
  }

  struct Connection {
    FdChannel channel;
    pid_t pid = 0;
    UniqueFd pidfd;  // moves to the peer; invalid in our own process
    Clock::time_point since;
    PeerId peer;  // invalid before it has shown the secret
  };
  struct Peer {
    std::string name;
    pid_t pid = 0;
    UniqueFd pidfd;  // invalid in our own process
    uint64_t connection = 0;
    Liveness liveness;
    PeerEnd end = PeerEnd::kExited;
    std::string detail;  // why it was killed
  };
  struct Reply {
    PeerId peer;
    std::array<int, 2> fds = {};  // still the table's
    size_t n_fds = 0;
    BlobState blob = BlobState::kNone;
  };

  BrokerLoop(BrokerOptions options, FdListener listener, UniqueFd epoll, UniqueFd stop);

  Status watch(int fd, Source source, uint64_t id) const;
  void run();
  bool handle_events(std::chrono::milliseconds bound);  // false: stop

  void accept_some();
  Status admit(FdChannel channel);
  void limit_strangers();
  void on_connection(uint64_t id);
  bool respond(uint64_t connection_id, FdMessage message);  // false: close the connection
  void close_connection(uint64_t id);

  Result<Reply> answer(uint64_t connection_id, const BrokerRequestData& request, FdMessage message);
  Result<Reply> hello(uint64_t connection_id, const BrokerRequestData& request);
  Status check_join(const std::string& name) const;
  Status check_right_of(PeerId peer, BrokerRequest kind, const std::string& subject) const;
  Result<Reply> serve(PeerId peer, const BrokerRequestData& request, const std::string& name,
                      FdMessage message);
  Result<Reply> serve_blob(PeerId peer, BrokerRequest kind, const BlobName& name,
                           FdMessage message);

  void look_at_all();
  void look_at(PeerId id, Peer& peer);
  void kill(Peer& peer, PeerEnd end, std::string detail);
  void end_peer(PeerId id);

  BrokerOptions options_;
  WireText<129> secret_;
  FdListener listener_;
  UniqueFd epoll_;
  UniqueFd stop_;  // eventfd
  PeerTable table_;
  BlobTable blobs_;
  std::map<uint64_t, Connection> connections_;
  std::map<PeerId, Peer> peers_;
  uint64_t next_connection_ = 1;
  bool more_to_accept_ = false;
  WarningLimit warnings_{"broker"};
  std::thread thread_;
};

}  // namespace suture
