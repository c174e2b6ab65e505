// What a test says to a broker by hand.
#pragma once

#include <span>
#include <string>

#include "bus/broker_wire.h"
#include "bus/fd_channel.h"

namespace suture {

BrokerRequestData broker_request(BrokerRequest kind, const std::string& name,
                                 const std::string& secret = "");
Status send_request(const FdChannel& channel, const BrokerRequestData& request,
                    std::span<const int> fds = {});
// Waits for it; kClosed if the broker has hung up.
Result<BrokerReplyData> receive_reply(const FdChannel& channel);
// A connection that has joined, or the broker's refusal.
Result<FdChannel> join_by_hand(const std::string& address, const std::string& secret,
                               const std::string& name);

}  // namespace suture
