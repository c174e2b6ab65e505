#include "models/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/unicode.h"

namespace suture {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    if (character.status != Utf8Status::kValid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

}  // namespace

Status validate_stop_strings(const std::vector<std::string>& stops) {
  const auto refuse = [](std::string what) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), "stop");
  };
  if (stops.size() > kMaxStopStrings)
    return refuse(
        fmt::format("{} stop strings, expected at most {}", stops.size(), kMaxStopStrings));
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes)
      return refuse(
          fmt::format("a stop string of {} bytes, expected 1 to {}", stop.size(), kMaxStopBytes));
    if (!is_utf8(stop)) return refuse("a stop string is not UTF-8");
  }
  return {};
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  stopped_ = first != std::string::npos;
  const size_t shown = stopped_ ? first : held_.size() - held_bytes();
  std::string out = held_.substr(0, shown);
  held_.erase(0, shown);
  return out;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

// Length of the longest end of the text that a stop string begins with.
size_t StopMatcher::held_bytes() const {
  const std::string_view text = held_;
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    size_t length = std::min(stop.size() - 1, text.size());
    while (length > longest && !stop.starts_with(text.substr(text.size() - length))) --length;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace suture
