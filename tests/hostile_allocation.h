// How much memory the code under test asks for: operator new is replaced in this program.
#pragma once

#include <cstddef>

namespace suture {

// The peak of memory held above what was held when this object was made. One at a time.
class AllocationPeak {
 public:
  AllocationPeak();
  size_t bytes() const;

 private:
  size_t base_;
};

// Memory that does not come from operator new counts too.
void count_allocation(size_t bytes);
void count_release(size_t bytes);

}  // namespace suture
