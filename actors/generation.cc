#include "actors/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

namespace suture {
namespace {

constexpr std::chrono::milliseconds kCreditSlice{200};  // then look whether it was cancelled

}  // namespace

Generation::Generation(const GenerateRequest& request, LanguageModel& model,
                       const Vocabularies& vocabularies, RopeCrossing rope_crossing,
                       BrokerClient& broker, const std::atomic<bool>& cancelled, TraceLog& trace,
                       const WorkMeter& meter)
    : request_(request),
      model_(model),
      rope_crossing_(rope_crossing),
      cancelled_(cancelled),
      trace_(trace),
      meter_(meter),
      text_(request.token_ids),
      stitching_(request, model, vocabularies, broker, cancelled) {}

Status Generation::run(const OpenStreamFn& open_stream, TokenRingWriter& ring, GenerateDone& done) {
  const auto body = [&]() -> Status {
    if (ring.produced() != request_.generated.size())
      return fail(ErrorCode::kCorrupt,
                  fmt::format("the ring holds {} tokens, {} were generated", ring.produced(),
                              request_.generated.size()),
                  "generation");
    SUTURE_ASSIGN_OR_RETURN(sampler_, Sampler::create(model_.device(), model_.config().vocab_size));
    SUTURE_RETURN_IF_ERROR(stitching_.attach());
    SUTURE_RETURN_IF_ERROR(read_prompt(open_stream));
    return decode(open_stream, ring, done);
  };
  const Status status = body();
  stitching_.report(figures_);
  if (cache_)
    figures_.kv_bytes_published = static_cast<int64_t>(cache_->writer().bytes_published());
  done.figures = figures_;
  done.degraded = stitching_.degraded();
  return status;
}

Status Generation::read_prompt(const OpenStreamFn& open_stream) {
  const int64_t start = monotonic_ns();
  const Status status = read_text(open_stream);
  figures_.prefill_seconds = seconds_since(start);
  return status;
}

// A slave that is lost while the text is read has been part of some layers' rows already, so the
// text is read again without it: a row never depends on when a slave died.
Status Generation::read_text(const OpenStreamFn& open_stream) {
  const int64_t n_generated = std::ssize(text_) - std::ssize(request_.token_ids);
  while (true) {
    SUTURE_RETURN_IF_ERROR(open(open_stream));
    if (n_generated == 0) {
      figures_.reused_tokens = cache_->size();
      figures_.prompt_tokens = std::ssize(text_) - cache_->size();
    }
    const Status status = read_own_tokens();
    if (status || !stitching_.lost()) return status;
    SUTURE_RETURN_IF_ERROR(stitching_.drop(*stitching_.lost(), n_generated, status.error()));
  }
}

// The head's entries are not taken over where they would have to be read again at once.
Status Generation::open(const OpenStreamFn& open_stream) {
  logits_ = nullptr;
  cache_.reset();
  SUTURE_ASSIGN_OR_RETURN(cache_, open_stream(true));
  if (!must_reread()) return {};
  cache_.reset();
  SUTURE_ASSIGN_OR_RETURN(cache_, open_stream(false));
  return {};
}

// Whether the entries were rotated by other tables than all tokens together would be.
bool Generation::must_reread() const {
  const int64_t length = position_of(std::ssize(text_) - 1) + 1;
  return rope_crossing_ == RopeCrossing::kReread && !model_.rotated_for(*cache_, length);
}

Status Generation::read_own_tokens() {
  while (cache_->size() < std::ssize(text_)) {
    const TextPart part = part_at(request_.answers, cache_->size(), std::ssize(text_));
    SUTURE_RETURN_IF_ERROR(part.answered ? read_answer(part.end) : read_as_prompt(part.end));
  }
  return {};
}

Status Generation::read_as_prompt(int64_t end) {
  const LayerGate gate = [this](int32_t layer) { return stitching_.wait_layer(layer); };
  const int64_t begin = cache_->size();
  PrefillArgs args;
  args.token_ids =
      std::span(text_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  args.cache = cache_.get();
  args.plan = &stitching_.plan();
  args.gate = &gate;
  args.on_chunk = [this](int64_t chunk_begin, int64_t chunk_end) -> Status {
    if (cancelled_.load(std::memory_order_acquire))
      return fail(ErrorCode::kCancelled, "the request was cancelled");
    stitching_.show(position_of(chunk_begin), position_of(chunk_end - 1));
    return {};
  };
  const int64_t start = monotonic_ns();
  SUTURE_ASSIGN_OR_RETURN(logits_, model_.prefill(args));
  trace_.add(fmt::format("read {} tokens", args.token_ids.size()), start);
  return {};
}

Status Generation::read_answer(int64_t end) {
  const int64_t start = monotonic_ns();
  const int64_t begin = cache_->size();
  for (int64_t entry = begin; entry < end; ++entry) {
    if (cancelled_.load(std::memory_order_acquire))
      return fail(ErrorCode::kCancelled, "the request was cancelled");
    stitching_.show(position_of(entry), position_of(entry));
    SUTURE_RETURN_IF_ERROR(stitching_.wait_step());
    SUTURE_ASSIGN_OR_RETURN(
        logits_, model_.decode(text_[static_cast<size_t>(entry)], *cache_, &stitching_.plan()));
  }
  trace_.add(fmt::format("read an answer of {} tokens", end - begin), start);
  return {};
}

Status Generation::decode(const OpenStreamFn& open_stream, TokenRingWriter& ring,
                          GenerateDone& done) {
  const int64_t start = monotonic_ns();
  show_waits();
  meter_.show(OwnerWork::kGenerating, request_.request);
  done.reason = FinishReason::kLength;
  for (int64_t index = 0; index < request_.max_tokens; ++index) {
    SUTURE_ASSIGN_OR_RETURN(const std::optional<int32_t> token, next_token(index, ring));
    if (!token) {
      done.reason = FinishReason::kStop;
      break;
    }
    text_.push_back(*token);
    figures_.decoded_tokens = index + 1;
    figures_.decode_seconds = seconds_since(start);
    const bool last = index + 1 == request_.max_tokens;
    if (!last || request_.keep_key != 0) SUTURE_RETURN_IF_ERROR(step(open_stream, index));
  }
  return {};
}

// Token number `index` of the answer, pushed unless the ring has it from a master before this one;
// nothing at the end. What was generated before is gone through with the kernels of generated
// tokens, so that all rows are those of a master that lived.
Result<std::optional<int32_t>> Generation::next_token(int64_t index, TokenRingWriter& ring) {
  if (index < std::ssize(request_.generated)) {
    if (cancelled_.load(std::memory_order_acquire))
      return fail(ErrorCode::kCancelled, "the request was cancelled");
    return request_.generated[static_cast<size_t>(index)];
  }
  SUTURE_ASSIGN_OR_RETURN(const int32_t token,
                          sampler_->sample(model_.stream(), logits_, request_.sampling,
                                           request_.first_new_position + index, text_));
  if (std::ranges::find(request_.end_ids, token) != request_.end_ids.end()) return std::nullopt;
  SUTURE_RETURN_IF_ERROR(wait_for_credit(ring));
  SUTURE_RETURN_IF_ERROR(ring.push(token));
  meter_.add_token();
  return token;
}

Status Generation::wait_for_credit(TokenRingWriter& ring) const {
  while (!cancelled_.load(std::memory_order_acquire)) {
    Status status = ring.wait_credit(deadline_in(kCreditSlice));
    if (status || status.error().code != ErrorCode::kTimeout) return status;
  }
  return fail(ErrorCode::kCancelled, "the request was cancelled");
}

// Computes the logits after the last token, which is number `index` of the answer.
Status Generation::step(const OpenStreamFn& open_stream, int64_t index) {
  const int64_t start = monotonic_ns();
  const int64_t position = request_.first_new_position + index;
  stitching_.push(text_.back());
  stitching_.show(position, position);
  while (true) {
    const Status ready = stitching_.wait_step();
    if (ready) break;
    if (!stitching_.lost()) return ready;
    SUTURE_RETURN_IF_ERROR(stitching_.drop(*stitching_.lost(), index + 1, ready.error()));
    stitching_.show(position, position);
  }
  if (must_reread()) return read_text(open_stream);
  SUTURE_ASSIGN_OR_RETURN(logits_, model_.decode(text_.back(), *cache_, &stitching_.plan()));
  trace_.add("decode", start);
  show_waits();
  return {};
}

void Generation::show_waits() {
  ProcessFigures now;
  stitching_.report(now);
  meter_.add_waits(now.bus_waits - shown_.bus_waits,
                   now.bus_wait_seconds - shown_.bus_wait_seconds);
  shown_ = now;
}

int64_t Generation::position_of(int64_t entry) const {
  return suture::position_of(request_.own, entry);
}

}  // namespace suture
