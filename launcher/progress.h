// Progress of long work on standard error: a bar on a terminal, a line per tenth elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace suture {

// "[=====>    ]  52 %  580 of 1117 MB  21 MB/s", `width` characters between the brackets.
std::string progress_text(uint64_t done, uint64_t total, double bytes_per_second, int width);

class ProgressLine {
 public:
  explicit ProgressLine(std::string title);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(uint64_t done_bytes, uint64_t total_bytes);

 private:
  using Clock = std::chrono::steady_clock;

  std::string title_;
  bool terminal_;
  bool drawn_ = false;
  uint64_t first_bytes_ = 0;  // what was there when the work began
  Clock::time_point started_;
  Clock::time_point shown_;
  uint64_t shown_tenth_ = 0;
};

}  // namespace suture
