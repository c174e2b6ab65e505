// Philox 4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011): the draw for a counter does not depend on any other draw.
#pragma once

#include <array>
#include <cstdint>

namespace suture {

std::array<uint32_t, 4> philox_4x32_10(std::array<uint32_t, 4> counter,
                                       std::array<uint32_t, 2> key);

}  // namespace suture
