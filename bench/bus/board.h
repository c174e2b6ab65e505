// What the processes of bus_bench tell each other, outside the bus that they measure.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bus/layout.h"

namespace suture::bus_bench {

inline constexpr size_t kMaxSamples = 1 << 16;
inline constexpr size_t kMaxReaders = 8;

// Reading and copying, on the bus and beside it, in ns of CPU time for all rounds together.
struct ThroughputData {
  uint64_t bytes = 0;
  uint64_t read_in_place_ns = 0;
  uint64_t read_private_ns = 0;
  uint64_t copy_ns = 0;
  uint64_t memcpy_shared_ns = 0;  // from shared memory that is not the bus
  uint64_t memcpy_ns = 0;
  uint64_t sum = 0;  // of what was read in place, once: tells whether it was the right thing
};

// Each word that is waited for has a line of its own. Zero-filled memory is a valid board.
struct BoardData {
  alignas(kCacheLine) std::atomic<uint64_t> ping;
  alignas(kCacheLine) std::atomic<uint64_t> pong;
  alignas(kCacheLine) std::atomic<uint32_t> futex_word;
  alignas(kCacheLine) std::atomic<uint64_t> sent_ns;  // when the event was caused
  alignas(kCacheLine) std::atomic<uint64_t> n_ready;  // readers that start, or event waited for
  alignas(kCacheLine) std::atomic<uint32_t> go;
  alignas(kCacheLine) std::array<uint64_t, kMaxSamples> late_ns;  // event caused -> seen
  std::array<ThroughputData, kMaxReaders> throughput;
};

}  // namespace suture::bus_bench
