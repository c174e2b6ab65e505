// Which process is hit when: drawn from a seed alone, so that a seed names a schedule.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "bench/torture/board.h"

namespace suture::torture {

enum class FaultKind : uint8_t {
  kKill,   // SIGKILL
  kStop,   // SIGSTOP, and left so
  kPause,  // SIGSTOP and SIGCONT: nothing may come of it
};

struct Fault {
  FaultKind kind = FaultKind::kKill;
  int child = 0;
  uint64_t after_steps = 0;  // of the child, from now on
  uint32_t spins = 0;        // pauses of the parent after that, to hit between steps too
};

struct Round {
  std::vector<Fault> faults;          // at once, each of another child
  std::vector<uint64_t> early_kills;  // of the first child's successors: steps since their start
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed) {}

  Round next();
  // Of all rounds so far: equal for equal seeds and counts.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  uint64_t draw(uint64_t n) { return random_() % n; }
  Fault fault(FaultKind kind, int child);

  std::mt19937_64 random_;
  uint64_t fingerprint_ = 0;
};

}  // namespace suture::torture
