#include "bench/torture/schedule.h"

#include "bench/torture/rows.h"

namespace suture::torture {
namespace {

constexpr uint64_t kMaxSteps = 150;
constexpr uint64_t kMaxSpins = 4000;  // about one step

FaultKind kind_of(uint64_t percent) {
  if (percent < 12) return FaultKind::kStop;
  return percent < 22 ? FaultKind::kPause : FaultKind::kKill;
}

}  // namespace

Fault Schedule::fault(FaultKind kind, int child) {
  // One in four as soon as possible.
  const uint64_t after = draw(4) == 0 ? 0 : draw(kMaxSteps);
  return {kind, child, after, static_cast<uint32_t>(draw(kMaxSpins))};
}

Round Schedule::next() {
  Round round;
  const auto first = static_cast<int>(draw(kChildren));
  round.faults.push_back(fault(kind_of(draw(100)), first));
  if (draw(5) == 0) {
    const auto step = 1 + static_cast<int>(draw(kChildren - 1));
    round.faults.push_back(fault(kind_of(draw(100)), (first + step) % kChildren));
  }
  if (draw(5) == 0) {
    for (uint64_t n = 1 + draw(2); n > 0; --n) round.early_kills.push_back(draw(8));
  }
  for (const Fault& f : round.faults)
    fingerprint_ =
        mix(fingerprint_, static_cast<uint64_t>(f.kind) << 8 | static_cast<uint64_t>(f.child),
            f.after_steps, f.spins);
  for (const uint64_t steps : round.early_kills) fingerprint_ = mix(fingerprint_, steps);
  return round;
}

}  // namespace suture::torture
