#include "models/sequence_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace suture {
namespace {

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "forward pass");
}

Status check_foreign(const ForeignSegment& segment, const ModelConfig& config) {
  const auto n_layers = static_cast<size_t>(config.n_layers);
  const size_t n_gains = n_layers * static_cast<size_t>(config.n_heads);
  if (segment.layers.size() != n_layers)
    return invalid(fmt::format("a segment has {} layers, the model {}", segment.layers.size(),
                               config.n_layers));
  if (segment.begin < 0 || segment.begin > segment.end)
    return invalid(fmt::format("a segment covers entries {} to {}", segment.begin, segment.end));
  if (!segment.log_gain.empty() && segment.log_gain.size() != n_gains)
    return invalid(
        fmt::format("a segment has {} gains, expected {}", segment.log_gain.size(), n_gains));
  if (segment.end > INT32_MAX) return invalid(fmt::format("a segment ends at {}", segment.end));
  if (!segment.visible_from.empty() && std::ssize(segment.visible_from) < segment.end)
    return invalid(fmt::format("a segment says of {} entries when they are visible, it covers {}",
                               segment.visible_from.size(), segment.end));
  return {};
}

}  // namespace

int64_t position_of(const SequencePlan& plan, int64_t entry) {
  if (plan.own.empty()) return entry;
  size_t run = 0;
  while (run + 1 < plan.own.size() && plan.own[run + 1].begin <= entry) ++run;
  return entry + plan.own[run].position_offset;
}

Status check_plan(const SequencePlan& plan, const ModelConfig& config) {
  if (plan.own.empty() || plan.own[0].begin != 0)
    return invalid("the sequence's own runs do not begin at entry 0");
  for (size_t i = 1; i < plan.own.size(); ++i) {
    if (plan.own[i].begin < plan.own[i - 1].begin)
      return invalid("the sequence's own runs are not in order");
  }
  for (const auto* segments : {&plan.before, &plan.after}) {
    for (const ForeignSegment& segment : *segments)
      SUTURE_RETURN_IF_ERROR(check_foreign(segment, config));
  }
  return {};
}

bool has_row_rule(const ForeignSegment& segment) {
  return !segment.visible_from.empty() || segment.visible_until != INT64_MAX;
}

int32_t row_visible_end(const ForeignSegment& segment, int64_t position) {
  if (position >= segment.visible_until) return 0;
  if (segment.visible_from.empty()) return static_cast<int32_t>(segment.end);
  const auto known = segment.visible_from.first(static_cast<size_t>(segment.end));
  return static_cast<int32_t>(std::ranges::upper_bound(known, position) - known.begin());
}

}  // namespace suture
