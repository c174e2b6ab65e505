// What a model process shows of its work to whoever watches (bus/slab_figures.h).
#pragma once

#include <cstdint>

#include "bus/layout.h"

namespace suture {

// Relaxed stores to a line of shared memory that only this process writes: cheap enough for every
// token. Used by the engine thread.
class WorkMeter {
 public:
  // Shows work from construction to destruction.
  class Shift {
   public:
    Shift(const WorkMeter& meter, OwnerWork work, uint64_t request) : meter_(meter) {
      meter_.show(work, request);
    }
    ~Shift() { meter_.show(OwnerWork::kIdle, 0); }
    Shift(const Shift&) = delete;
    Shift& operator=(const Shift&) = delete;

   private:
    const WorkMeter& meter_;
  };

  explicit WorkMeter(OwnerFiguresData& figures) : figures_(figures) {}

  void show(OwnerWork work, uint64_t request) const {
    figures_.work.store(static_cast<uint32_t>(work), std::memory_order_relaxed);
    figures_.request.store(request, std::memory_order_relaxed);
  }
  void add_token() const { figures_.tokens_generated.fetch_add(1, std::memory_order_relaxed); }
  void add_waits(int64_t waits, double seconds) const {
    figures_.waits.fetch_add(static_cast<uint64_t>(waits), std::memory_order_relaxed);
    figures_.wait_ns.fetch_add(static_cast<uint64_t>(seconds * 1e9), std::memory_order_relaxed);
  }
  void set_lazily_built(int64_t count) const {
    figures_.lazily_built.store(static_cast<uint64_t>(count), std::memory_order_relaxed);
  }

 private:
  OwnerFiguresData& figures_;
};

}  // namespace suture
