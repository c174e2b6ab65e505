// When a process that has ended is started again: soon at first, later after each crash, and not
// any more once it has failed too often in a row.
#pragma once

#include <chrono>
#include <optional>

namespace suture {

struct RestartOptions {
  int tries = 5;  // starts after a crash, in a row, before it is given up; 0 = never again
  std::chrono::milliseconds first_delay{500};
  std::chrono::milliseconds longest_delay{30'000};  // the delay doubles up to here
  std::chrono::milliseconds healthy_after{60'000};  // at work for so long, a crash is a first one
};

// The history of one process.
class RestartPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RestartPolicy(RestartOptions options) : options_(options) {}

  // It has loaded and takes part.
  void joined(Clock::time_point now) { joined_at_ = now; }
  // How long to wait before it is started again; nothing once it is given up.
  std::optional<std::chrono::milliseconds> ended(Clock::time_point now);

  // Of the last delay: 1 for the first; 0 before any crash.
  int tries() const { return tries_; }
  int most_tries() const { return options_.tries; }

 private:
  RestartOptions options_;
  std::optional<Clock::time_point> joined_at_;
  int tries_ = 0;
};

}  // namespace suture
