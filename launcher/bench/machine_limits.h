// How fast this machine could go at most, measured with as many threads as an engine has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "kernels/cpu/thread_pool.h"
#include "launcher/bench/peak_loop.h"

namespace suture {

class MachineLimits {
 public:
  // The buffer that is read is far larger than a cache, or `bytes` if they are given.
  static Result<MachineLimits> create(int threads, Isa isa, size_t bytes = size_t{1} << 30);

  // Each call measures once and keeps the best so far: bytes a second that a plain loop reads, each
  // thread its own part of the buffer from its beginning to its end.
  void measure_read();
  // Operations a second of the peak loop in all threads at the same time.
  void measure_peak();

  double read_bytes_per_second() const { return read_bytes_per_second_; }
  double peak_flop_per_second() const { return peak_flop_per_second_; }
  const PeakLoop& peak() const { return peak_; }

 private:
  // Private memory without a file, in huge pages where the system has them, as weights are.
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };

  MachineLimits(int threads, Isa isa) : pool_(new ThreadPool(threads)), peak_(peak_loop(isa)) {}

  std::unique_ptr<ThreadPool> pool_;
  PeakLoop peak_;
  std::unique_ptr<std::byte, Unmap> buffer_{nullptr, Unmap{0}};
  size_t bytes_ = 0;
  double read_bytes_per_second_ = 0;
  double peak_flop_per_second_ = 0;
};

}  // namespace suture
