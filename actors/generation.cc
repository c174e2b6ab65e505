#include "actors/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace suture {

Generation::Generation(GenerateRequest request, const Engine& engine,
                       std::shared_ptr<const CancelFlag> cancelled, TraceLog trace,
                       std::function<void(GenerateDone)> on_done)
    : request_(std::move(request)),
      engine_(engine),
      cancelled_(std::move(cancelled)),
      trace_(std::move(trace)),
      on_done_(std::move(on_done)),
      text_(request_.token_ids),
      stitching_(std::make_unique<Stitching>(request_, engine.model, engine.vocabularies,
                                             engine.projectors, engine.broker, *cancelled_)),
      gate_([this](int32_t layer) -> Status {
        SUTURE_RETURN_IF_ERROR(check_cancelled(*cancelled_));
        return stitching_->wait_layer(layer);
      }),
      read_end_(std::ssize(text_)) {}

Result<Turn> Generation::next_turn() {
  if (!ring_ && !request_.ring.empty()) SUTURE_RETURN_IF_ERROR(open_ring());
  SUTURE_RETURN_IF_ERROR(check_cancelled(*cancelled_));
  if (!sampler_) SUTURE_RETURN_IF_ERROR(prepare());
  if (!cache_) {
    if (!engine_.streams.is_readable(request_.head_key, request_.head_entries)) return Turn::kWait;
    SUTURE_RETURN_IF_ERROR(open());
  }
  if (cache_->size() < read_end_) return read_turn();
  if (decode_start_ns_ == 0) {
    decode_start_ns_ = monotonic_ns();
    figures_.prefill_seconds = seconds_since(begun_ns_);
    show_waits();
  }
  if (cache_->size() == std::ssize(text_)) {
    SUTURE_ASSIGN_OR_RETURN(const Turn turn, take_token());
    if (turn != Turn::kRow) return turn;
    if (must_reread()) {
      begin_text();
      return next_turn();
    }
  }
  return row_turn();
}

// Also of a request that is cancelled: whoever follows the answer learns of its end.
Status Generation::open_ring() {
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd fd, engine_.broker.ring(request_.ring));
  SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::attach(fd.get()));
  SUTURE_ASSIGN_OR_RETURN(TokenRingWriter writer, TokenRingWriter::open(std::move(ring)));
  ring_.emplace(std::move(writer));
  return {};
}

Status Generation::prepare() {
  begun_ns_ = monotonic_ns();
  if (ring_ && ring_->produced() != request_.generated.size())
    return fail(ErrorCode::kCorrupt,
                fmt::format("the ring holds {} tokens, {} were generated", ring_->produced(),
                            request_.generated.size()),
                "generation");
  LanguageModel& model = engine_.model;
  const int32_t vocab_size = model.config().vocab_size;
  SUTURE_RETURN_IF_ERROR(check_scoring());
  if (request_.scored_tokens > 0) {
    SUTURE_ASSIGN_OR_RETURN(
        scoring_, RowScoring::create(model, request_.scored_tokens, request_.score_detail));
  }
  SUTURE_ASSIGN_OR_RETURN(sampler_, Sampler::create(model.device(), vocab_size));
  text_.reserve(text_.size() + static_cast<size_t>(request_.max_tokens));
  if (request_.watch.on) SUTURE_RETURN_IF_ERROR(begin_watching());
  SUTURE_RETURN_IF_ERROR(stitching_->attach());
  if (!request_.whole_ids.empty() && !stitching_->degraded().empty()) {
    SUTURE_RETURN_IF_ERROR(read_whole());
    stitching_->build_plan();
  }
  return {};
}

// The row of the last given token is the first that chooses one.
Status Generation::begin_watching() {
  const int64_t end = std::ssize(request_.token_ids) - 1 + request_.max_tokens;
  SUTURE_ASSIGN_OR_RETURN(watcher_,
                          AttentionWatcher::create(request_.watch, engine_.model.config().n_layers,
                                                   first_scoring_row(), end));
  return {};
}

// Of the rows that come next; the plan may have changed.
AttentionObservation* Generation::observation() {
  if (!watcher_) return nullptr;
  watcher_->lay_out(stitching_->segments(), [this](size_t i) {
    const SourceLink& link = request_.sources[stitching_->source_of(i)];
    return link.draft ? draft_reader(link.name) : link.name;
  });
  return watcher_->observation();
}

// What comes from the coordinator, and what the two modes need.
Status Generation::check_scoring() const {
  const bool scoring = request_.scored_tokens > 0;
  const bool possible = request_.scored_tokens >= 0 && first_scoring_row() >= 0 &&
                        request_.head_entries <= first_scoring_row() && request_.answers.empty() &&
                        request_.max_tokens == 0;
  if (scoring ? possible : request_.scored_tokens == 0 && !request_.ring.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} tokens to score and {} to generate after {} ({} read before)",
                          request_.scored_tokens, request_.max_tokens, request_.token_ids.size(),
                          request_.head_entries),
              "generation");
}

// The head's entries are not taken over where they would have to be read again at once.
Status Generation::open() {
  for (const bool take_over_head : {true, false}) {
    cache_.reset();
    SUTURE_ASSIGN_OR_RETURN(
        cache_, engine_.streams.open(request_.head_key, take_over_head ? request_.head_entries : 0,
                                     request_.token_ids,
                                     std::ssize(request_.token_ids) + request_.max_tokens,
                                     request_.request));
    if (!must_reread()) break;
  }
  if (generated() == 0) {
    figures_.reused_tokens = cache_->size();
    figures_.prompt_tokens = std::ssize(text_) - cache_->size();
  }
  return {};
}

// All of it has to be read, again if it was read before.
void Generation::begin_text() {
  reader_.reset();
  cache_.reset();
  if (scoring_) scoring_->clear();
  if (watcher_) watcher_->restart();
  read_end_ = std::ssize(text_);
  shown_end_ = part_end_ = 0;
}

// Whether the entries were rotated by other tables than all tokens together would be.
bool Generation::must_reread() const {
  const int64_t length = position_of(std::ssize(text_) - 1) + 1;
  return engine_.rope_crossing == RopeCrossing::kReread &&
         !engine_.model.rotated_for(*cache_, length);
}

Result<Turn> Generation::read_turn() {
  const int64_t begin = cache_->size();
  const TextPart part = part_at(request_.answers, begin, read_end_);
  if (part.end != part_end_) {
    part_begin_ = begin;
    part_end_ = part.end;
    part_start_ns_ = monotonic_ns();
  }
  show_rows(part.answered ? begin + 1 : std::min(part.end, chunk_end(begin)));
  const Result<bool> ready = part.answered ? stitching_->step_ready() : stitching_->chunk_ready();
  if (!ready) {
    SUTURE_RETURN_IF_ERROR(lose(ready.error()));
    return next_turn();
  }
  if (part.answered) return *ready ? Turn::kRow : Turn::kWait;
  return *ready || stitching_->can_project() ? Turn::kChunk : Turn::kWait;
}

// A slave that is lost while the text is read has been part of some layers' rows already, so the
// text is read again without it: a row never depends on when a slave died.
Status Generation::lose(const Error& why) {
  SUTURE_RETURN_IF_ERROR(drop_slave(why));
  begin_text();
  return {};
}

Status Generation::drop_slave(const Error& why) {
  if (!stitching_->lost()) return tl::unexpected<Error>(why);
  const int64_t token = generated();
  if (!request_.whole_ids.empty()) SUTURE_RETURN_IF_ERROR(read_whole());
  return stitching_->drop(*stitching_->lost(), token, why);
}

// A text that was transferred went with its slave: the master reads all of it, and what it has
// generated since, at the same positions.
Status Generation::read_whole() {
  const auto answered = text_.begin() + std::ssize(request_.token_ids);
  std::vector<int32_t> whole = request_.whole_ids;
  whole.reserve(whole.size() + static_cast<size_t>(request_.max_tokens));
  whole.insert(whole.end(), answered, text_.end());
  text_ = std::move(whole);
  request_.token_ids = std::exchange(request_.whole_ids, {});
  request_.own = {{0, 0}};
  begin_text();
  return watcher_ ? begin_watching() : Status();
}

// Once for each chunk, however many steps it takes: it counts what will be read.
void Generation::show_rows(int64_t end) {
  if (shown_end_ == end) return;
  shown_end_ = end;
  stitching_->show(position_of(cache_->size()), position_of(end - 1));
}

// Of the last token, which is not in the cache yet.
Result<Turn> Generation::row_turn() {
  while (true) {
    show_rows(std::ssize(text_));
    const Result<bool> ready = stitching_->step_ready();
    if (ready) return *ready ? Turn::kRow : Turn::kWait;
    SUTURE_RETURN_IF_ERROR(drop_slave(ready.error()));
    shown_end_ = 0;
    if (!cache_) return next_turn();
  }
}

DecodeItem Generation::row() {
  return {text_[static_cast<size_t>(cache_->size())], cache_.get(), &stitching_->plan(),
          observation()};
}

void Generation::take_row(const Result<const float*>& logits, int64_t /*start_ns*/) {
  if (!logits) return end(tl::unexpected<Error>(logits.error()));
  if (cache_->size() > read_end_) {
    trace_.add("decode", row_start_ns_);
    show_waits();
  } else if (cache_->size() == part_end_) {
    trace_.add(fmt::format("read an answer of {} tokens", part_end_ - part_begin_), part_start_ns_);
  }
  advance(*logits);
}

void Generation::read_chunk(int64_t grid) {
  // As they come, so that the slave goes on meanwhile.
  if (stitching_->can_project()) {
    if (const Status projected = stitching_->project(grid); !projected) end(projected);
    return;
  }
  const Result<const float*> logits = read_on(grid);
  if (!logits) {
    if (const Status lost = lose(logits.error()); !lost) end(lost);
    return;
  }
  if (!reader_->done()) return;
  reader_.reset();
  trace_.add(fmt::format("read {} tokens", part_end_ - part_begin_), part_start_ns_);
  advance(*logits);
}

Result<const float*> Generation::read_on(int64_t grid) {
  AttentionObservation* const observed = observation();
  if (!reader_) {
    PrefillArgs args;
    args.token_ids = std::span(text_)
                         .first(static_cast<size_t>(part_end_))
                         .subspan(static_cast<size_t>(cache_->size()));
    args.cache = cache_.get();
    args.plan = &stitching_->plan();
    args.gate = &gate_;
    args.observation = observed;
    if (scoring_) {
      args.first_logits_row = std::max<int64_t>(0, first_scoring_row() - cache_->size());
      args.on_logits = [this, begin = cache_->size()](int64_t row, const float* logits) {
        return score_row(begin + row, logits);
      };
    }
    SUTURE_ASSIGN_OR_RETURN(reader_, engine_.model.prompt_reader(args));
  }
  return reader_->step(grid);
}

// By the logits of a row of the text: the token after it, if there is one.
Status Generation::score_row(int64_t row, const float* logits) {
  const auto next = static_cast<size_t>(row) + 1;
  if (next == text_.size()) return {};
  return scoring_->add(logits, text_[next]);
}

// After a pass: draws the next token, if its logits are there.
void Generation::advance(const float* logits) {
  if (cache_->size() < std::ssize(text_)) return;
  if (const Status drawn = draw(logits); !drawn) end(drawn);
}

Status Generation::draw(const float* logits) {
  const int64_t index = generated();
  if (index < std::ssize(request_.generated) || index == request_.max_tokens) return {};
  SUTURE_ASSIGN_OR_RETURN(drawn_,
                          sampler_->sample(engine_.model.stream(), logits, request_.sampling,
                                           request_.first_new_position + index, text_));
  return {};
}

// The next token joins the text; its row comes next, unless nobody needs it.
Result<Turn> Generation::take_token() {
  const int64_t index = generated();
  if (index == request_.max_tokens) return Turn::kDone;
  const bool replayed = index < std::ssize(request_.generated);
  const int32_t token = replayed ? request_.generated[static_cast<size_t>(index)] : *drawn_;
  if (!replayed) {
    if (std::ranges::find(request_.end_ids, token) != request_.end_ids.end()) {
      reason_ = FinishReason::kStop;
      return Turn::kDone;
    }
    SUTURE_ASSIGN_OR_RETURN(const bool credit, ring_->has_credit());
    if (!credit) return Turn::kWait;
    SUTURE_RETURN_IF_ERROR(ring_->push(token));
    engine_.meter.add_token();
  }
  drawn_.reset();
  text_.push_back(token);
  figures_.decoded_tokens = index + 1;
  figures_.decode_seconds = seconds_since(decode_start_ns_);
  if (index + 1 == request_.max_tokens && request_.keep_key == 0) return Turn::kDone;
  row_start_ns_ = monotonic_ns();
  stitching_->push(token);
  return Turn::kRow;
}

void Generation::add_doorbells(std::vector<DoorbellData*>& doorbells) {
  if (ring_) doorbells.push_back(&ring_->doorbell());
  stitching_->add_doorbells(doorbells);
}

void Generation::finish() {
  if (!outcome())
    reason_ = outcome().error().code == ErrorCode::kCancelled ? FinishReason::kCancelled
                                                              : FinishReason::kError;
  GenerateDone done;
  done.request = request_.request;
  done.attempt = request_.attempt;
  done.reason = reason_;
  done.outcome = Outcome::of(reason_ == FinishReason::kCancelled ? Status() : outcome());
  stitching_->report(figures_);
  if (cache_)
    figures_.kv_bytes_published = static_cast<int64_t>(cache_->writer().bytes_published());
  done.figures = figures_;
  done.degraded = stitching_->degraded();
  done.spans = trace_.take();
  if (scoring_) done.scores = scoring_->take();
  if (watcher_) done.attention = watcher_->shares();
  stitching_.reset();  // its leases end before anybody is told to drop the streams
  keep_answer(done);
  cache_.reset();
  if (ring_) ring_->finish(static_cast<uint32_t>(reason_));
  on_done_(std::move(done));
}

// The stream of an answer goes on to the next turn of its conversation.
void Generation::keep_answer(GenerateDone& done) {
  const bool was_read = cache_ && cache_->size() >= read_end_;
  if (request_.keep_key == 0 || reason_ == FinishReason::kError || !was_read) return;
  done.token_ids.assign(text_.begin(), text_.begin() + cache_->size());
  auto stream = std::make_shared<OpenStream>();
  stream->request.token_ids = stream->token_ids = done.token_ids;
  stream->cache = std::move(cache_);
  engine_.streams.keep(request_.keep_key, std::move(stream));
}

void Generation::show_waits() {
  ProcessFigures now;
  stitching_->report(now);
  engine_.meter.add_waits(now.bus_waits - shown_.bus_waits,
                          now.bus_wait_seconds - shown_.bus_wait_seconds);
  shown_ = now;
}

}  // namespace suture
