// What a projector file says before its numbers, as a Cap'n Proto message
// (schemas/projector.capnp).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "fusion/projector.h"

namespace suture {

struct ProjectorHeader {
  Projector projector;  // weights, mean, gamma and beta are empty
  std::string data_sha256;
};

std::vector<std::byte> encode_projector_header(const Projector& projector,
                                               const std::string& data_sha256);

// `bytes` come from a file: kCorrupt if they are no such message. No window has more layers than
// the source; everything else is left to validate().
Result<ProjectorHeader> decode_projector_header(std::span<const std::byte> bytes);

}  // namespace suture
