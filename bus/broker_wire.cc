#include "bus/broker_wire.h"

#include <fmt/format.h>

#include <cstring>

namespace suture {

Status check_broker_version(std::span<const std::byte> message) {
  BrokerVersionData sent;
  if (message.size() < sizeof(sent)) return fail(ErrorCode::kCorrupt, "not a broker message");
  std::memcpy(&sent, message.data(), sizeof(sent));
  if (sent.magic != kBrokerMagic) return fail(ErrorCode::kCorrupt, "not a broker message");
  if (sent.version == kBrokerVersion) return {};
  return fail(ErrorCode::kIncompatible,
              fmt::format("version {} of the broker protocol on one side, {} on the other",
                          kBrokerVersion, sent.version),
              "", "start all processes from the same build");
}

}  // namespace suture
