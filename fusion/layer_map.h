// Which layer of a slave meets which layer of its master (design §4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

struct LayerMapSpec {
  enum class Kind : uint8_t {
    kIdentity,    // layer l takes layer l of a slave that is as deep
    kStride,      // layers 0, N, 2N, ... take the slave's layers 0, 1, 2, ...; the others none
    kNearest,     // every layer takes the slave's layer at the nearest relative depth
    kLastToLast,  // the last takes the last, and so on down, as far as both go
    kTable,       // as listed
  };

  Kind kind = Kind::kIdentity;
  int64_t stride = 1;          // kStride only, >= 1
  std::vector<int64_t> table;  // kTable only: [master layers] slave layer, kNoPartner = none

  bool operator==(const LayerMapSpec&) const = default;
};

// This layer of the master has no partner and attends to its own K/V only.
inline constexpr int32_t kNoPartner = -1;

// "identity", "stride:2", "nearest", "last-to-last"; kInvalidArgument lists them.
Result<LayerMapSpec> parse_layer_map(std::string_view text);
// The other way round; a table is "table".
std::string layer_map_name(const LayerMapSpec& spec);

// [master_layers] the slave's layer, or kNoPartner. kInvalidArgument with both depths when the map
// does not fit them, or leaves every layer without a partner.
Result<std::vector<int32_t>> make_layer_map(const LayerMapSpec& spec, int32_t master_layers,
                                            int32_t slave_layers);

}  // namespace suture
