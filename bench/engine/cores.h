// Cores that benchmarks pin engines to.
#pragma once

#include <vector>

#include "base/error.h"

namespace suture {

// The first `n` cores that this process may use; kInvalidArgument if there are fewer.
Result<std::vector<int>> first_cores(int n);

}  // namespace suture
