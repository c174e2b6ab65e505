#include "fusion/merge_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace suture {
namespace {

Status validate(const MergeInput& input) {
  if (input.tail_ids.empty())
    return fail(ErrorCode::kInvalidArgument, "the master has no tokens of its own to continue");
  for (const MergeSource& source : input.sources) {
    if (std::ssize(source.layer_gain) != input.n_layers)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} gains for {} layers", source.layer_gain.size(), input.n_layers),
                  source.name, "give one gain, or one per layer of the master");
    for (float gain : source.layer_gain)
      if (std::isnan(gain) || (std::isinf(gain) && gain > 0))
        return fail(ErrorCode::kInvalidArgument, fmt::format("gain {} is not a number", gain),
                    source.name, "use a finite gain, or -inf to switch the slave off");
    if (source.lag < 0)
      return fail(ErrorCode::kInvalidArgument, fmt::format("lag {} is negative", source.lag),
                  source.name);
    const auto slaves =
        std::ssize(input.sources) - std::ranges::count_if(input.sources, &MergeSource::is_draft);
    if (source.transfer_end != 0 &&
        (slaves > 1 || source.transfer_end <= std::ssize(input.head_ids)))
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("a text transferred up to token {} behind {} own ones, with {} slaves",
                      source.transfer_end, input.head_ids.size(), slaves),
          source.name, "a slave that transfers its text is the only one");
    if (source.draft_begin < 0 || source.draft_begin > source.draft_end)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a draft from {} to {}", source.draft_begin, source.draft_end),
                  source.name);
  }
  return {};
}

// Lays one prefix at `cursor` and returns the position after it.
int64_t lay_prefix(const MergeInput& input, int32_t index, int64_t cursor, MergePlan& plan) {
  const MergeSource& source = input.sources[static_cast<size_t>(index)];
  const int64_t begin = std::max<int64_t>(1, source.shared_tokens);
  const int64_t end = std::ssize(source.token_ids);
  if (begin >= end) return cursor;
  const int64_t shift = cursor - begin;
  plan.segments.push_back({.source = index,
                           .position = SlavePosition::kPrefix,
                           .begin = begin,
                           .end = end,
                           .position_offset = shift,
                           .rotation_shift = shift,
                           .lag = 0});
  return cursor + end - begin;
}

// Returns the position after the transferred text.
int64_t lay_transfer(const MergeInput& input, MergePlan& plan) {
  const int64_t end = input.sources[0].transfer_end;
  plan.segments.push_back({.source = 0,
                           .position = SlavePosition::kPrefix,
                           .begin = std::ssize(input.head_ids),
                           .end = end});
  return end;
}

// An aligned slave reads the master's own tokens without the gap that prefixes make, so each run
// of the master meets it with a shift of its own.
void align(const MergeInput& input, int32_t index, MergePlan& plan) {
  const MergeSource& source = input.sources[static_cast<size_t>(index)];
  for (size_t run = 0; run < plan.own.size(); ++run) {
    const bool last = run + 1 == plan.own.size();
    plan.segments.push_back({.source = index,
                             .position = SlavePosition::kAligned,
                             .begin = plan.own[run].begin,
                             .end = last ? PlannedSegment::kOpenEnd : plan.own[run + 1].begin,
                             .position_offset = plan.own[run].position_offset,
                             .rotation_shift = plan.own[run].position_offset,
                             .lag = source.lag});
  }
}

int64_t position_of(const MergePlan& plan, int64_t entry) {
  int64_t offset = 0;
  for (const OwnRun& run : plan.own)
    if (run.begin <= entry) offset = run.position_offset;
  return entry + offset;
}

// Returns how many positions the drafts take, between two of the master's own tokens.
int64_t lay_drafts(const MergeInput& input, MergePlan& plan) {
  const int64_t tail = std::ssize(input.tail_ids);
  const int64_t entry =
      std::ssize(input.head_ids) + tail - std::clamp<int64_t>(input.opening_tokens, 1, tail);
  const int64_t begin = position_of(plan, entry);
  int64_t cursor = begin;
  for (size_t i = 0; i < input.sources.size(); ++i) {
    const MergeSource& source = input.sources[i];
    if (!source.is_draft()) continue;
    const int64_t shift = cursor - source.draft_begin;
    plan.segments.push_back({.source = static_cast<int32_t>(i),
                             .position = SlavePosition::kPrefix,
                             .begin = source.draft_begin,
                             .end = source.draft_end,
                             .position_offset = shift,
                             .rotation_shift = shift,
                             .lag = 0});
    cursor += source.draft_end - source.draft_begin;
  }
  if (cursor == begin) return 0;
  if (plan.own.back().begin == entry) plan.own.pop_back();
  plan.own.push_back({entry, cursor - entry});
  return cursor - begin;
}

bool is_silent(const MergeSource& source) {
  return std::ranges::all_of(source.layer_gain, [](float gain) { return std::isinf(gain); });
}

// The position of the first of `rows` own rows that would see more than stitch_until tokens. What a
// row sees never shrinks from one row to the next.
int64_t find_stitch_end(const MergeInput& input, const MergePlan& plan, int64_t rows) {
  const auto too_many = [&](int64_t entry) {
    int64_t seen = entry + 1;
    for (const PlannedSegment& segment : plan.segments)
      if (!is_silent(input.sources[static_cast<size_t>(segment.source)]))
        seen += visible_end(segment, position_of(plan, entry)) - segment.begin;
    return seen > input.stitch_until;
  };
  int64_t first = 0;
  for (int64_t end = rows; first < end;) {
    const int64_t middle = first + (end - first) / 2;
    if (too_many(middle))
      end = middle;
    else
      first = middle + 1;
  }
  return first == rows ? INT64_MAX : position_of(plan, first);
}

}  // namespace

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

int64_t visible_end(const PlannedSegment& segment, int64_t last_position) {
  const int64_t bound = last_position - segment.lag - segment.position_offset + 1;
  return std::clamp(bound, segment.begin, std::max(segment.begin, segment.end));
}

Result<MergePlan> plan_merge(const MergeInput& input) {
  SUTURE_RETURN_IF_ERROR(validate(input));
  MergePlan plan;
  const int64_t head = std::ssize(input.head_ids);
  const bool transfers = !input.sources.empty() && input.sources[0].transfer_end > 0;
  int64_t cursor = transfers ? lay_transfer(input, plan) : head;
  for (size_t i = 0; i < input.sources.size() && !transfers; ++i)
    if (input.sources[i].position == SlavePosition::kPrefix && !input.sources[i].is_draft())
      cursor = lay_prefix(input, static_cast<int32_t>(i), cursor, plan);

  if (head > 0) plan.own.push_back({0, 0});
  if (head == 0 || cursor != head) plan.own.push_back({head, cursor - head});
  const int64_t drafted = lay_drafts(input, plan);
  for (size_t i = 0; i < input.sources.size() && !transfers; ++i)
    if (input.sources[i].position == SlavePosition::kAligned && !input.sources[i].is_draft())
      align(input, static_cast<int32_t>(i), plan);

  plan.first_new_position = cursor + std::ssize(input.tail_ids) + drafted;
  // In place of a transferred text a row would see nothing.
  if (!plan.segments.empty() && !transfers)
    plan.stitch_end =
        find_stitch_end(input, plan, head + std::ssize(input.tail_ids) + input.max_new_tokens);
  const int64_t total = plan.first_new_position + input.max_new_tokens;
  if (total > input.max_positions)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} positions are needed ({} of the master's head, {} of prefixes, {} "
                            "of its tail, {} of drafts, {} to generate), the master has {}",
                            total, head, cursor - head, input.tail_ids.size(), drafted,
                            input.max_new_tokens, input.max_positions),
                "merge plan",
                drafted > 0 ? "shorten the documents, ask for fewer tokens or lower draft"
                            : "shorten the documents or ask for fewer tokens");
  return plan;
}

}  // namespace suture
