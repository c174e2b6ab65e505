// The fastest multiplications of the processor: a loop on registers alone, without memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/cpu/isa.h"

namespace suture {

struct PeakLoop {
  std::string_view instruction;  // "vpdpbusd"
  double flop_per_turn = 0;      // operations: a product and its sum are two
  void (*run)(int64_t turns) = nullptr;
};

// With the instruction that multiplies most in the given set.
PeakLoop peak_loop(Isa isa);

}  // namespace suture
