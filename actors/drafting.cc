#include "actors/drafting.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "fusion/token_pairing.h"

namespace suture {

Drafting::Drafting(ReadRequest request, const Engine& engine,
                   std::shared_ptr<const CancelFlag> cancelled, TraceLog trace,
                   std::function<void(ReadDone)> on_done)
    : stream_(std::make_shared<OpenStream>()),
      engine_(engine),
      cancelled_(std::move(cancelled)),
      trace_(std::move(trace)),
      on_done_(std::move(on_done)),
      gate_([this](int32_t /*layer*/) { return check_cancelled(*cancelled_); }) {
  stream_->request = std::move(request);
}

Result<Turn> Drafting::next_turn() {
  SUTURE_RETURN_IF_ERROR(check_cancelled(*cancelled_));
  if (prompt_ == 0) SUTURE_RETURN_IF_ERROR(prepare());
  if (!stream_->cache) {
    SUTURE_ASSIGN_OR_RETURN(const bool opened, open());
    if (!opened) return Turn::kWait;
  }
  if (size() < prompt_) return Turn::kChunk;
  if (!said_all_) return Turn::kRow;
  SUTURE_RETURN_IF_ERROR(publish());
  return Turn::kDone;
}

// At least one token is left to read: its row says how the text goes on.
Status Drafting::prepare() {
  const ReadRequest& request = stream_->request;
  if (request.token_ids.empty() || request.draft.tokens < 1)
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} tokens to draft after {}", request.draft.tokens, request.token_ids.size()),
        engine_.name);
  begun_ns_ = monotonic_ns();
  ids() = request.token_ids;
  if (!request.text_of.empty()) SUTURE_RETURN_IF_ERROR(translate());
  if (request.head_key != 0) {
    head_ = engine_.streams.find(request.head_key);
    if (!head_)
      return fail(ErrorCode::kNotFound, fmt::format("no stream {}", request.head_key),
                  engine_.name);
    head_entries_ = std::min(common_prefix(head_->token_ids, ids()), std::ssize(ids()) - 1);
  }
  prompt_ = std::ssize(ids());
  most_ = std::min(request.draft.tokens, engine_.longest_sequence - prompt_);
  if (most_ < 1)
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("no room for a draft after {} tokens of the slave's", prompt_),
                engine_.name, "raise max_seq_len in [bus]");
  return {};
}

// The prompt ends here, also where the text that is followed goes on.
Status Drafting::translate() {
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* theirs,
                          engine_.vocabularies.of(stream_->request.text_of));
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* own, engine_.vocabularies.own());
  TokenAlignment alignment(*theirs, *own);
  for (const int32_t token : stream_->request.token_ids) alignment.push(token);
  alignment.finish();
  ids() = alignment.slave_ids();
  if (!ids().empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "the slave has no tokens for the text", engine_.name);
}

// False while the head is still being read.
Result<bool> Drafting::open() {
  if (head_) {
    const bool there = head_->cache && head_->cache->size() >= head_entries_;
    if (!there && head_->being_read && !head_->dropped) return false;
    if (!there) return fail(ErrorCode::kClosed, "the text was not read to its end", engine_.name);
  }
  SUTURE_ASSIGN_OR_RETURN(stream_->cache,
                          engine_.streams.open(stream_->request.head_key, head_entries_, ids(),
                                               prompt_ + most_, stream_->request.request));
  ids().reserve(static_cast<size_t>(prompt_ + most_));
  head_.reset();
  return true;
}

void Drafting::read_chunk(int64_t grid) {
  if (const Status status = read_on(grid); !status) end(status);
}

Status Drafting::read_on(int64_t grid) {
  if (!reader_) {
    PrefillArgs args;
    args.token_ids =
        std::span(std::as_const(stream_->token_ids)).subspan(static_cast<size_t>(size()));
    args.cache = stream_->cache.get();
    args.gate = &gate_;
    SUTURE_ASSIGN_OR_RETURN(reader_, engine_.model.prompt_reader(args));
  }
  SUTURE_ASSIGN_OR_RETURN(const float* logits, reader_->step(grid));
  if (!reader_->done()) return {};
  reader_.reset();
  figures_.prompt_tokens = prompt_ - head_entries_;
  figures_.prefill_seconds = seconds_since(begun_ns_);
  SUTURE_ASSIGN_OR_RETURN(
      sampler_, Sampler::create(engine_.model.device(), engine_.model.config().vocab_size));
  drafting_since_ns_ = monotonic_ns();
  return choose(logits);
}

DecodeItem Drafting::row() { return {ids().back(), stream_->cache.get(), nullptr}; }

void Drafting::take_row(const Result<const float*>& logits, int64_t /*start_ns*/) {
  if (!logits) return end(tl::unexpected<Error>(logits.error()));
  engine_.meter.add_token();
  figures_.decoded_tokens = drafted();
  figures_.decode_seconds = seconds_since(drafting_since_ns_);
  if (const Status status = choose(*logits); !status) end(status);
}

// The token that ends a draft is no part of it.
Status Drafting::choose(const float* logits) {
  said_all_ = drafted() == most_;
  if (said_all_) return {};
  SUTURE_ASSIGN_OR_RETURN(const int32_t token, sampler_->sample(engine_.model.stream(), logits,
                                                                SamplingOptions{}, size()));
  said_all_ = std::ranges::count(stream_->request.draft.end_ids, token) != 0;
  if (!said_all_) ids().push_back(token);
  return {};
}

// The draft in the master's tokens, and which of its entries is mapped for each.
Result<Drafting::MappedDraft> Drafting::draft_to_map() const {
  MappedDraft draft;
  if (stream_->request.text_of.empty()) {
    draft.token_ids.assign(stream_->token_ids.begin() + prompt_, stream_->token_ids.end());
    draft.entries.resize(draft.token_ids.size());
    std::iota(draft.entries.begin(), draft.entries.end(), static_cast<int32_t>(prompt_));
    return draft;
  }
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* theirs,
                          engine_.vocabularies.of(stream_->request.text_of));
  SUTURE_ASSIGN_OR_RETURN(const Tokenizer* own, engine_.vocabularies.own());
  std::string text;
  std::vector<int64_t> ends;
  for (int64_t entry = prompt_; entry < std::ssize(stream_->token_ids); ++entry) {
    text += own->piece(stream_->token_ids[static_cast<size_t>(entry)]);
    ends.push_back(std::ssize(text));
  }
  const std::vector<int32_t> said_by_master = theirs->encode(text, SpecialTokens::kAsText);
  const std::vector<int64_t> master_ends = token_ends(*theirs, said_by_master, text);
  draft.entries = last_ended(ends, master_ends);
  for (int32_t& entry : draft.entries) entry += static_cast<int32_t>(prompt_);
  // The first ones may end before any of the own tokens does.
  const auto end = said_by_master.begin() + std::ssize(master_ends);
  draft.token_ids.assign(end - std::ssize(draft.entries), end);
  return draft;
}

Status Drafting::publish() {
  if (drafted() > 0) trace_.add(fmt::format("draft {} tokens", drafted()), drafting_since_ns_);
  if (drafted() == 0 || engine_.projected == nullptr) return {};
  const int64_t start_ns = monotonic_ns();
  SUTURE_ASSIGN_OR_RETURN(MappedDraft draft, draft_to_map());
  if (draft.entries.empty()) return {};
  SUTURE_ASSIGN_OR_RETURN(stream_->projected, engine_.projected->map_generated(
                                                  *stream_->cache, std::move(draft.entries),
                                                  draft.token_ids, stream_->request.request));
  figures_.projection_seconds = seconds_since(start_ns);
  return {};
}

void Drafting::finish() {
  ReadDone done;
  done.key = stream_->request.key;
  done.outcome = Outcome::of(outcome());
  if (stream_->cache) {
    uint64_t published = stream_->cache->writer().bytes_published();
    if (stream_->projected) published += stream_->projected->writer().bytes_published();
    figures_.kv_bytes_published = static_cast<int64_t>(published);
  }
  if (outcome()) {
    Draft& draft = done.draft;
    draft.token_ids.assign(ids().begin() + prompt_, ids().end());
    draft.seconds = figures_.decode_seconds;
    const bool mapped = stream_->projected != nullptr;
    draft.begin = mapped ? 0 : prompt_;
    draft.end = mapped ? stream_->projected->size() : size();
    if (mapped || (engine_.projected == nullptr && draft.end > draft.begin))
      draft.stream = announce(*stream_, mapped ? engine_.projected->owner() : engine_.name);
    else
      draft.begin = draft.end = 0;
    engine_.streams.add(done.key, stream_);
  }
  done.figures = figures_;
  done.spans = trace_.take();
  on_done_(std::move(done));
}

}  // namespace suture
