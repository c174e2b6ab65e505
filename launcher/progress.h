// Progress of long work on standard error: a bar on a terminal, a line per tenth elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace suture {

// "[=====>    ]  52 %  580 of 1117 MB  21 MB/s", `width` characters between the brackets.
std::string progress_text(uint64_t done, uint64_t total, double bytes_per_second, int width);

// "[=====>    ]" for the share of the work that is done.
std::string progress_bar(double share, int width);

// "40 s", "12 min", "1.5 h".
std::string duration_text(double seconds);

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

// Progress in steps that have names: "model [=====>    ]  50 %  decode".
class StepProgress {
 public:
  explicit StepProgress(std::string title);
  StepProgress(const StepProgress&) = delete;
  StepProgress& operator=(const StepProgress&) = delete;
  ~StepProgress();

  // `what` comes next; elsewhere than on a terminal only a new tenth gives a line.
  void update(std::string_view what, int64_t done, int64_t total);

 private:
  std::string title_;
  bool terminal_;
  int64_t shown_tenth_ = -1;
};

}  // namespace suture
