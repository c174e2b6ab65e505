// Counts what a piece of code takes from the heap, on any thread.
#pragma once

#include <cstdint>

namespace suture {

// False in sanitized builds, where the heap belongs to the sanitizer.
bool allocations_are_counted();

// Calls of malloc and its kin (operator new is one) in this process so far.
int64_t allocations_so_far();

}  // namespace suture
