#include "kernels/cpu/attention_tile.h"

#include <limits>
#include <utility>

namespace suture {
namespace {

// Of elements of 4 bytes or a multiple, so that the next array begins at a cache line.
int64_t whole_lines(int64_t elements) { return (elements + 15) / 16 * 16; }

bool is_silent(const AttentionSegment& segment, int32_t n_heads) {
  if (segment.log_gain == nullptr) return false;
  return std::all_of(segment.log_gain, segment.log_gain + n_heads,
                     [](float gain) { return gain == -std::numeric_limits<float>::infinity(); });
}

}  // namespace

int64_t SpanCursor::next(std::span<AttentionSpan> spans) {
  int64_t count = 0;
  while (count < std::ssize(spans) && segment_ < args_.segments.size()) {
    const AttentionSegment& segment = args_.segments[segment_];
    const int64_t first = segment.begin / kAttentionSpan;
    const int64_t end = (segment.end + kAttentionSpan - 1) / kAttentionSpan;
    if (segment.begin == segment.end || first + done_ >= end || is_silent(segment, args_.n_heads)) {
      ++segment_;
      done_ = 0;
      continue;
    }
    spans[static_cast<size_t>(count++)] = {static_cast<int32_t>(segment_), first + done_++};
  }
  return count;
}

size_t AttentionScratch::bytes(int64_t slots, const SoftmaxState::Width& width) {
  const int64_t floats = 2 * kKvBlockTokens * width.head_dim +
                         slots * query_stride(width.head_dim) + slots * kAttentionSpan +
                         2 * whole_lines(SoftmaxState::floats(slots, width));
  return static_cast<size_t>(whole_lines(floats)) * sizeof(float) +
         static_cast<size_t>(whole_lines(slots)) * sizeof(ActiveQuery);
}

AttentionScratch AttentionScratch::at(std::byte* memory, int64_t slots,
                                      const SoftmaxState::Width& width) {
  auto* next = reinterpret_cast<float*>(memory);
  const auto take = [&next](int64_t floats) {
    return std::exchange(next, next + whole_lines(floats));
  };
  AttentionScratch scratch;
  scratch.keys = take(kKvBlockTokens * width.head_dim);
  scratch.values = take(kKvBlockTokens * width.head_dim);
  scratch.queries = take(slots * query_stride(width.head_dim));
  scratch.scores = take(slots * kAttentionSpan);
  const int64_t state_floats = SoftmaxState::floats(slots, width);
  scratch.partial = SoftmaxState::at(take(state_floats), slots, width);
  scratch.state = SoftmaxState::at(take(state_floats), slots, width);
  scratch.active = reinterpret_cast<ActiveQuery*>(next);
  return scratch;
}

}  // namespace suture
