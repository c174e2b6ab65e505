// Warnings about what others do: strangers and faulty peers must not be able to fill a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace suture {

// Lets one warning of each kind through a second and counts the others. For any thread.
class WarningLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // Every line starts with `source`.
  explicit WarningLimit(std::string source) : source_(std::move(source)) {}
  // Tells what was left out in the end.
  ~WarningLimit();
  WarningLimit(const WarningLimit&) = delete;
  WarningLimit& operator=(const WarningLimit&) = delete;

  // Kinds are words of the code, never of the other side: each is remembered.
  void warn(std::string_view kind, std::string_view text);
  // The line that a warning at `now` becomes, if it is let through.
  std::optional<std::string> line(std::string_view kind, std::string_view text,
                                  Clock::time_point now);

 private:
  struct Kind {
    std::optional<Clock::time_point> last;
    uint64_t left_out = 0;
  };

  std::string source_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace suture
