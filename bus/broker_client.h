// A peer's connection to the broker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bus/fd_channel.h"
#include "bus/ids.h"
#include "bus/shared_blob.h"

namespace suture {

class SlabView;
struct BrokerRequestData;
struct BrokerReply;

// Safe to use from several threads. Calls wait a few seconds at most, unless they say otherwise:
// the broker answers from memory and never waits for anybody. They fail with kClosed once the
// broker is gone.
class BrokerClient {
 public:
  // Names have 1 to 63 printable characters. A name that a live peer holds is refused (kBusy), a
  // wrong secret too (kPermission), and a broker of another version (kIncompatible).
  // `on_broker_gone` runs once, on the client's own thread, when the broker hangs up; not when the
  // client is destroyed first.
  static Result<std::unique_ptr<BrokerClient>> connect(const std::string& address,
                                                       const std::string& secret,
                                                       const std::string& name,
                                                       std::function<void()> on_broker_gone = {});
  // In the broker's own process this ends the peer: its leases are dropped, so its views must not
  // be in use any more.
  ~BrokerClient();
  BrokerClient(const BrokerClient&) = delete;
  BrokerClient& operator=(const BrokerClient&) = delete;

  PeerId self() const { return self_; }

  // Offers this peer's payload and control mappings to the others; once per connection. Both keep
  // belonging to the caller.
  Status publish_slab(int payload_fd, int control_fd);
  // The mapping that peer `owner_name` offers, imported once per incarnation of its owner: after
  // the owner was restarted, the new one's. kNotFound while there is no such peer or it has not
  // published yet.
  Result<std::shared_ptr<SlabView>> slab(const std::string& owner_name);

  // How many slabs it has imported so far.
  int64_t imported_slabs();

  // Offers a token ring under a name of its own (kBusy if it is taken). When this peer ends, its
  // rings become lost: their readers get what was pushed, then kLost.
  Status publish_ring(const std::string& ring_name, int fd);
  Result<UniqueFd> ring(const std::string& ring_name);
  // Only the peer that published a ring may withdraw it.
  Status withdraw_ring(const std::string& ring_name);

  // Memory that all peers which ask for this key and size have in common. The first to ask has it
  // filled; the others wait, and take its place one after another if it fails or ends. The content
  // must follow from the key. Keys are like names.
  Result<Mapping> shared_blob(const std::string& key, uint64_t bytes, const BlobFill& fill);

 private:
  struct ImportedSlab {
    PeerId owner;
    std::shared_ptr<SlabView> view;
  };

  BrokerClient(FdChannel channel, UniqueFd stop);
  void watch(const std::function<void()>& on_broker_gone) const;
  Result<BrokerReply> call(BrokerRequestData request, std::span<const int> fds = {});
  Result<BrokerReply> call_locked(const BrokerRequestData& request, std::span<const int> fds = {});
  Result<Mapping> build_blob(BrokerRequestData request, const BlobFill& fill);
  Result<BrokerReply> receive_reply(uint64_t serial);

  FdChannel channel_;
  UniqueFd stop_;  // eventfd that ends the watching thread
  PeerId self_{};
  std::thread watcher_;
  std::mutex mutex_;  // one request at a time; guards what follows
  uint64_t next_serial_ = 1;
  std::map<std::string, ImportedSlab> imported_;
  int64_t imports_ = 0;
};

}  // namespace suture
