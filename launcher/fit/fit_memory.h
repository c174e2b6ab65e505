// The memory that a fit takes, before it begins.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "fusion/gram.h"

namespace suture {

struct FitMemory {
  uint64_t models_bytes = 0;   // both processes and the program itself
  uint64_t moments_bytes = 0;  // of K and V, to fit and held out
  uint64_t rows_bytes = 0;     // of the text that is gathered, and scratch of the products
  uint64_t solving_bytes = 0;  // when the processes have ended
  uint64_t limit_bytes = 0;

  uint64_t most_bytes() const;
};

struct FitDemand {
  FitShape shape;                  // widest is chosen
  std::vector<int32_t> windows;    // source layers, rising; the widest may be left out ...
  bool windows_are_fixed = false;  // ... unless they are wanted as they are
  int32_t n_kinds = 1;             // of held-out texts
  int64_t rows = 512;              // of the longest text
  int threads = 1;
  uint64_t models_bytes = 0;
  uint64_t limit_bytes = 0;
};

struct FitPlan {
  FitShape shape;
  std::vector<int32_t> windows;  // rising; the last is shape.widest
  // As many kinds as are told apart: all, or 1 where there is no memory for that.
  int32_t n_kinds = 1;
  FitMemory memory;
};

// What fits into the limit. kOutOfMemory with both numbers if nothing does.
Result<FitPlan> plan_fit(const FitDemand& demand);

}  // namespace suture
