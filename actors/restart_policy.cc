#include "actors/restart_policy.h"

#include <algorithm>

namespace suture {

std::optional<std::chrono::milliseconds> RestartPolicy::ended(Clock::time_point now) {
  if (joined_at_ && now - *joined_at_ >= options_.healthy_after) tries_ = 0;
  joined_at_.reset();
  if (tries_ >= options_.tries) return std::nullopt;
  std::chrono::milliseconds delay = options_.first_delay;
  for (int doubled = 0; doubled < tries_ && delay < options_.longest_delay; ++doubled) delay *= 2;
  ++tries_;
  return std::min(delay, options_.longest_delay);
}

}  // namespace suture
