#include "bus/test_broker.h"

#include "bus/doorbell.h"

namespace suture {

BrokerRequestData broker_request(BrokerRequest kind, const std::string& name,
                                 const std::string& secret) {
  BrokerRequestData request;
  request.kind = static_cast<uint32_t>(kind);
  request.name.assign(name);
  request.secret.assign(secret);
  return request;
}

Status send_request(const FdChannel& channel, const BrokerRequestData& request,
                    std::span<const int> fds) {
  return channel.send(std::as_bytes(std::span(&request, 1)), fds);
}

Result<BrokerReplyData> receive_reply(const FdChannel& channel) {
  SUTURE_RETURN_IF_ERROR(channel.wait_readable(deadline_in(std::chrono::seconds(60))));
  SUTURE_ASSIGN_OR_RETURN(const FdMessage message, channel.receive());
  return message_data<BrokerReplyData>(message);
}

Result<FdChannel> join_by_hand(const std::string& address, const std::string& secret,
                               const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(FdChannel channel, FdChannel::connect(address));
  SUTURE_RETURN_IF_ERROR(
      send_request(channel, broker_request(BrokerRequest::kHello, name, secret)));
  SUTURE_ASSIGN_OR_RETURN(const BrokerReplyData reply, receive_reply(channel));
  if (reply.failed == 0) return channel;
  return fail(static_cast<ErrorCode>(reply.error), std::string(reply.what.view().value_or("")));
}

}  // namespace suture
