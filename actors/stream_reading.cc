#include "actors/stream_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace suture {

StreamReading::StreamReading(std::shared_ptr<OpenStream> stream, const Engine& engine,
                             std::shared_ptr<const CancelFlag> cancelled, TraceLog trace,
                             std::function<void(ReadDone)> on_done)
    : stream_(std::move(stream)),
      engine_(engine),
      cancelled_(std::move(cancelled)),
      trace_(std::move(trace)),
      on_done_(std::move(on_done)),
      gate_([this](int32_t /*layer*/) { return check_wanted(); }),
      begun_ns_(monotonic_ns()) {
  stream_->being_read = true;
  stream_->token_ids.reserve(static_cast<size_t>(stream_->cache->capacity()));
  figures_.reused_tokens = size();
}

Status StreamReading::check_wanted() const {
  if (stream_->dropped) return fail(ErrorCode::kCancelled, "the stream was dropped");
  return check_cancelled(*cancelled_);
}

Result<Turn> StreamReading::next_turn() {
  SUTURE_RETURN_IF_ERROR(check_wanted());
  if (size() < known()) return ring_ ? Turn::kRow : read_turn();
  if (!ring_) {
    SUTURE_RETURN_IF_ERROR(map_rows());
    if (stream_->request.follow_ring.empty()) {
      note_read();
      return Turn::kDone;
    }
    SUTURE_RETURN_IF_ERROR(begin_to_follow());
  }
  SUTURE_ASSIGN_OR_RETURN(const bool ended, follow());
  SUTURE_RETURN_IF_ERROR(map_rows());
  if (size() < known()) return Turn::kRow;
  return ended ? Turn::kDone : Turn::kWait;
}

Turn StreamReading::read_turn() {
  // What was translated has other tokens, and none of them is known to have been followed.
  std::span<const AnswerRun> answers = stream_->request.answers;
  if (stream_->alignment) answers = {};
  const TextPart part = part_at(answers, size(), known());
  part_end_ = part.end;
  return part.answered ? Turn::kRow : Turn::kChunk;
}

DecodeItem StreamReading::row() {
  return {.token_id = stream_->token_ids[static_cast<size_t>(size())],
          .cache = stream_->cache.get(),
          .wants_logits = false};
}

// What has been computed, as the master's kind.
Status StreamReading::map_rows() {
  if (!stream_->projected) return {};
  const int64_t start_ns = monotonic_ns();
  SUTURE_RETURN_IF_ERROR(stream_->projected->extend(
      *stream_->cache, {stream_->request.token_ids, stream_->alignment.get()}));
  figures_.projection_seconds += seconds_since(start_ns);
  return {};
}

void StreamReading::take_row(const Result<const float*>& logits, int64_t start_ns) {
  if (!logits) return end(tl::unexpected<Error>(logits.error()));
  if (const Status mapped = map_rows(); !mapped) return end(mapped);
  if (!ring_) return;
  trace_.add("follow", start_ns);
  engine_.meter.add_token();
  figures_.decoded_tokens += 1;
  figures_.decode_seconds += seconds_since(start_ns);
}

void StreamReading::read_chunk(int64_t grid) {
  const auto read = [&]() -> Status {
    if (!reader_) {
      PrefillArgs args;
      args.token_ids = std::span(stream_->token_ids)
                           .first(static_cast<size_t>(part_end_))
                           .subspan(static_cast<size_t>(size()));
      args.cache = stream_->cache.get();
      args.gate = &gate_;
      args.first_logits_row = std::ssize(args.token_ids);  // others read K and V
      SUTURE_ASSIGN_OR_RETURN(reader_, engine_.model.prompt_reader(args));
    }
    SUTURE_RETURN_IF_ERROR(reader_->step(grid));
    if (reader_->done()) reader_.reset();
    return map_rows();
  };
  if (const Status status = read(); !status) end(status);
}

// The text has been read.
void StreamReading::note_read() {
  figures_.prompt_tokens = size() - figures_.reused_tokens;
  figures_.prefill_seconds = seconds_since(begun_ns_);
  if (figures_.prompt_tokens > 0)
    trace_.add(fmt::format("read {} tokens", figures_.prompt_tokens), begun_ns_);
}

Status StreamReading::begin_to_follow() {
  note_read();
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd fd, engine_.broker.ring(stream_->request.follow_ring));
  SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::attach(fd.get()));
  ring_.emplace(std::move(ring));
  return {};
}

// Takes the master's tokens as they come, until there is a row to compute; with the kernels of
// generated tokens these are the rows of a master of the same weights. True when none will come.
Result<bool> StreamReading::follow() {
  while (size() == known()) {
    const auto next = ring_->try_next();
    if (!next && next.error().code == ErrorCode::kTimeout) return false;
    if (!next) return tl::unexpected<Error>(next.error());
    // The last token of a full stream is not needed: no row of the master comes after it.
    if (!next->has_value() || full_ || size() == stream_->cache->capacity()) return true;
    take_over((*next)->id);
  }
  return false;
}

void StreamReading::take_over(int32_t token) {
  std::vector<int32_t>& ids = stream_->token_ids;
  const auto capacity = static_cast<size_t>(stream_->cache->capacity());
  if (!stream_->alignment) {
    ids.push_back(token);
  } else {
    stream_->alignment->push(token);
    const auto& certain = stream_->alignment->slave_ids();
    full_ = certain.size() > capacity;
    const size_t end = std::min(certain.size(), capacity);
    ids.insert(ids.end(), certain.begin() + std::ssize(ids),
               certain.begin() + static_cast<std::ptrdiff_t>(end));
  }
  if (!full_) stream_->request.token_ids.push_back(token);
}

void StreamReading::add_doorbells(std::vector<DoorbellData*>& doorbells) {
  if (ring_) doorbells.push_back(&ring_->doorbell());
}

void StreamReading::finish() {
  stream_->being_read = false;
  const uint64_t key = stream_->request.key;
  ReadDone done;
  done.key = key;
  done.outcome = Outcome::of(outcome());
  uint64_t published = stream_->cache->writer().bytes_published();
  if (stream_->projected) published += stream_->projected->writer().bytes_published();
  figures_.kv_bytes_published = static_cast<int64_t>(published);
  done.figures = figures_;
  done.spans = trace_.take();
  if (!outcome()) {
    engine_.streams.drop(key);  // readers that still wait for rows learn that they will not come
    stream_->projected.reset();
    stream_->cache.reset();
  } else if (!stream_->request.follow_ring.empty()) {
    done.token_ids = stream_->request.token_ids;
    engine_.streams.keep(key, stream_);
  } else if (stream_->request.request != 0) {
    // Its master may be reading it: the stream stays as it is.
    done.token_ids = stream_->request.token_ids;
  }
  on_done_(std::move(done));
}

}  // namespace suture
