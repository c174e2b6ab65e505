// Finds the strings that end an answer, across the pieces in which its text comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 256;  // of one

// kInvalidArgument where there are too many, or one is empty, too long or no UTF-8.
Status validate_stop_strings(const std::vector<std::string>& stops);

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds text, whole characters; gives what can be shown now. Text that may be the beginning of a
  // stop string is held back, a stop string and what comes after it never shown.
  std::string push(std::string_view text);
  // The text has ended: what was held back, unless a stop string was found.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  size_t held_bytes() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace suture
