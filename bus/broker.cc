#include "bus/broker.h"

#include <utility>

#include "bus/broker_loop.h"

namespace suture {

std::string_view peer_end_name(PeerEnd end) {
  switch (end) {
    case PeerEnd::kExited: return "exited";
    case PeerEnd::kStopped: return "stopped";
    case PeerEnd::kHung: return "hung";
  }
  return "unknown";
}

Broker::Broker(std::unique_ptr<BrokerLoop> loop) : loop_(std::move(loop)) {}

Broker::~Broker() = default;

Result<std::unique_ptr<Broker>> Broker::start(BrokerOptions options) {
  SUTURE_ASSIGN_OR_RETURN(auto loop, BrokerLoop::start(std::move(options)));
  return std::unique_ptr<Broker>(new Broker(std::move(loop)));
}

std::string Broker::address() const { return loop_->address(); }

}  // namespace suture
