#include "tests/hostile_allocation.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace suture {
namespace {

std::atomic<size_t> held = 0;
std::atomic<size_t> peak = 0;

}  // namespace

AllocationPeak::AllocationPeak() : base_(held) { peak = base_; }

size_t AllocationPeak::bytes() const { return peak - base_; }

void count_allocation(size_t bytes) {
  const size_t now = held += bytes;
  size_t before = peak;
  while (before < now && !peak.compare_exchange_weak(before, now)) {
  }
}

void count_release(size_t bytes) { held -= bytes; }

}  // namespace suture

namespace {

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  suture::count_allocation(::malloc_usable_size(memory));
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  suture::count_release(::malloc_usable_size(memory));
  std::free(memory);
}

void* aligned(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
}

}  // namespace

// All forms that are used: a sanitizer's own are no pair of these.
void* operator new(size_t size) { return counted(std::malloc(std::max<size_t>(size, 1))); }
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  return counted(aligned(size, alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(std::max<size_t>(size, 1));
  if (memory != nullptr) suture::count_allocation(::malloc_usable_size(memory));
  return memory;
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
