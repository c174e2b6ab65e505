// What the peers of a launch may do with each other's memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/error.h"

namespace suture {

enum class BrokerRequest : uint32_t;

// Beyond offering a slab of its own, which every peer may.
struct PeerRights {
  std::set<std::string> reads;  // the peers whose slabs it may map
  bool publishes_rings = false;
  bool opens_rings = false;
  bool shares_blobs = false;
};

// By the name under which a peer joins; no other name may join.
using RightsByName = std::map<std::string, PeerRights>;

// kPermission if the request, about `subject`, is not among the rights. It does not say whether
// there is such a slab or ring.
Status check_right(const PeerRights& rights, BrokerRequest request, const std::string& subject);

}  // namespace suture
