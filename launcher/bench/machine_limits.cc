#include "launcher/bench/machine_limits.h"

#include <emmintrin.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace suture {
namespace {

constexpr int64_t kLine = 64;  // bytes

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Wider loads, prefetches and several streams were tried and read no faster.
void read_lines(const std::byte* begin, const std::byte* end) {
  __m128i seen[4] = {};
  for (const std::byte* line = begin; line < end; line += kLine) {
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i)
      seen[i] = _mm_xor_si128(seen[i], _mm_load_si128(reinterpret_cast<const __m128i*>(line) + i));
  }
  for (const __m128i& bits : seen) asm volatile("" : : "x"(bits));
}

}  // namespace

void MachineLimits::Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

Result<MachineLimits> MachineLimits::create(int threads, Isa isa, size_t bytes) {
  MachineLimits limits(threads, isa);
  limits.bytes_ = bytes / kLine * kLine;
  void* memory =
      ::mmap(nullptr, limits.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail_errno(fmt::format("no {} bytes to measure the speed of reading", bytes), errno);
  limits.buffer_ = {static_cast<std::byte*>(memory), Unmap{limits.bytes_}};
  ::madvise(memory, limits.bytes_,
            MADV_HUGEPAGE);  // where it is refused, small pages are the limit
  std::byte* const data = limits.buffer_.get();
  // Untouched pages would all be the one page of zeros.
  limits.pool_->parallel_for(
      static_cast<int64_t>(limits.bytes_) / kLine, [data](int64_t begin, int64_t end, int) {
        std::memset(data + begin * kLine, 1, static_cast<size_t>((end - begin) * kLine));
      });
  return limits;
}

void MachineLimits::measure_read() {
  const std::byte* const data = buffer_.get();
  const auto start = std::chrono::steady_clock::now();
  pool_->parallel_for(static_cast<int64_t>(bytes_) / kLine,
                      [data](int64_t begin, int64_t end, int) {
                        read_lines(data + begin * kLine, data + end * kLine);
                      });
  read_bytes_per_second_ =
      std::max(read_bytes_per_second_, static_cast<double>(bytes_) / seconds_since(start));
}

void MachineLimits::measure_peak() {
  constexpr int64_t kTurns = 4'000'000;  // some 15 ms
  const auto run = peak_.run;
  const int64_t threads = pool_->size();
  const auto start = std::chrono::steady_clock::now();
  pool_->parallel_for(threads, [run](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) run(kTurns);
  });
  const double flop = peak_.flop_per_turn * static_cast<double>(kTurns * threads);
  peak_flop_per_second_ = std::max(peak_flop_per_second_, flop / seconds_since(start));
}

}  // namespace suture
