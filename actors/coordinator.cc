#include "actors/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <tuple>

#include "base/check.h"
#include "bus/slab.h"
#include "fusion/merge_plan.h"
#include "kernels/kv_layout.h"

namespace suture {
namespace {

// Context keys are even, request numbers (which a model is told to cancel by) are odd.
constexpr uint64_t kKeyStep = 2;

constexpr int kMostMastersForOneToken = 3;

constexpr const char* kShorten = "raise max_seq_len in [bus], or ask for fewer tokens (-n)";

}  // namespace

Coordinator::Coordinator(CoordinatorSetup setup) : setup_(std::move(setup)) {
  SUTURE_CHECK(setup_.contexts.size() == setup_.spec.models.size(), "contexts={} models={}",
               setup_.contexts.size(), setup_.spec.models.size());
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (model(i).role == Role::kMaster) master_ = i;
}

uint64_t Coordinator::new_key() { return next_key_++ * kKeyStep; }

size_t Coordinator::index_of(const std::string& name) const {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (model(i).name == name) return i;
  return setup_.spec.models.size();
}

std::vector<Outgoing> Coordinator::joined(const std::string& name) {
  if (index_of(name) == setup_.spec.models.size()) return {};
  joined_.insert(name);
  if (!all_joined()) return {};
  std::vector<size_t> all(setup_.contexts.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const size_t index = index_of(name);
  const std::vector<size_t> one = {index};
  const bool again = gone_.erase(name) != 0;
  std::vector<Outgoing> out;
  if (setup_.spec.warm_up) import_slabs(again && index != master_ ? one : all, out);
  for (const size_t i : again ? one : all) read_context(i, out);
  proceed(out);
  return out;
}

void Coordinator::import_slabs(const std::vector<size_t>& owners,
                               std::vector<Outgoing>& out) const {
  ImportSlabs import;
  for (const size_t i : owners)
    if (model(i).role == Role::kSlave) import.owners.push_back(model(i).name);
  if (!import.owners.empty()) out.emplace_back(model(master_).name, std::move(import));
}

void Coordinator::read_context(size_t index, std::vector<Outgoing>& out) {
  forget_context(index);
  const std::vector<int32_t>& ids = setup_.contexts[index].head_ids;
  if (ids.empty()) return;
  contexts_[index] = start_reading(index, {.token_ids = ids, .capacity = std::ssize(ids)}, out);
}

void Coordinator::forget_context(size_t index) {
  const auto context = contexts_.extract(index);
  if (context.empty()) return;
  readings_.erase(context.mapped());
  if (running_) running_->awaited.erase(context.mapped());
}

uint64_t Coordinator::start_reading(size_t index, ReadRequest request, std::vector<Outgoing>& out) {
  const uint64_t key = new_key();
  request.key = key;
  readings_[key].model = index;
  out.emplace_back(model(index).name, std::move(request));
  return key;
}

std::vector<Outgoing> Coordinator::ask(Question question) {
  SUTURE_CHECK(!running_ && !report_, "request {} while another runs", question.request);
  running_.emplace();
  running_->question = std::move(question);
  RunningRequest& running = *running_;
  running.report.request = running.question.request;
  for (const auto& [index, key] : contexts_)
    if (!readings_[key].complete) running.awaited.insert(key);

  running.own_ids = setup_.contexts[master_].head_ids;
  running.own_ids.insert(running.own_ids.end(), running.question.tail_ids.begin(),
                         running.question.tail_ids.end());
  running.report.prompt_tokens = std::ssize(running.own_ids);
  conversations_.touch(running.question.conversation);
  std::vector<Outgoing> out;
  if (const Status fits = check_length(); !fits) {
    end_early(fits, FinishReason::kError, out);
  } else {
    make_room(out);
    start_followers(out);
  }
  proceed(out);
  return out;
}

// Silent conversations give way: their next turn reads its text again.
void Coordinator::make_room(std::vector<Outgoing>& out) {
  std::vector<KvRoom> rooms;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (i == master_ || model(i).fusion.position == SlavePosition::kAligned)
      rooms.push_back(room_for(i));
  drop(conversations_.make_room(rooms, running_->question.conversation), out);
}

KvRoom Coordinator::room_for(size_t index) const {
  const LaunchSpec& spec = setup_.spec;
  const ModelContext& context = setup_.contexts[index];
  const int64_t own = std::ssize(running_->own_ids) + running_->question.max_tokens;
  const int64_t tokens = context.other_vocabulary ? spec.max_seq_len : own;
  KvRoom room;
  room.model = index;
  // While an answer's stream is replaced by one of its exact length there are both; they share all
  // blocks but the last.
  room.blocks_needed = kv_blocks_for(tokens) - read_before(index).second / kKvBlockTokens + 1;
  room.streams_needed = 2;
  room.blocks = spec.max_sequences * kv_blocks_for(spec.max_seq_len) -
                kv_blocks_for(std::ssize(context.head_ids));
  room.streams = spec.max_sequences * int64_t{kStreamsPerSequence} - 1;
  return room;
}

void Coordinator::drop(const std::vector<DroppedStream>& streams,
                       std::vector<Outgoing>& out) const {
  for (const DroppedStream& stream : streams)
    out.emplace_back(model(stream.model).name, DropStream{stream.key});
}

Status Coordinator::check_length() const {
  const int64_t prompt = std::ssize(running_->own_ids);
  const int64_t total = prompt + running_->question.max_tokens;
  if (total <= setup_.spec.max_seq_len) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} tokens are needed ({} to read, {} to generate), max_seq_len is {}",
                          total, prompt, running_->question.max_tokens, setup_.spec.max_seq_len),
              "request", running_->question.conversation == 0 ? kShorten : kBeginAnew);
}

void Coordinator::start_followers(std::vector<Outgoing>& out) {
  RunningRequest& running = *running_;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    const bool aligned = i != master_ && model(i).fusion.position == SlavePosition::kAligned;
    if (!aligned || gone_.contains(model(i).name)) continue;
    ReadRequest request;
    request.token_ids = running.own_ids;
    request.capacity = std::ssize(running.own_ids) + running.question.max_tokens;
    request.follow_ring = running.question.ring;
    request.request = running.question.request;
    request.answers = own_answers();
    if (setup_.contexts[i].other_vocabulary) request.text_of = model(master_).name;
    std::tie(request.head_key, request.head_entries) = read_before(i);
    const uint64_t key = start_reading(i, std::move(request), out);
    running.aligned[i] = key;
    running.awaited.insert(key);
  }
}

// Earlier answers, in the master's whole text.
std::vector<AnswerRun> Coordinator::own_answers() const {
  std::vector<AnswerRun> answers = running_->question.answers;
  const int64_t head = std::ssize(setup_.contexts[master_].head_ids);
  for (AnswerRun& answer : answers) answer = {answer.begin + head, answer.end + head};
  return answers;
}

// At least one token is left to read: its row gives the first logits.
std::pair<uint64_t, int64_t> Coordinator::read_before(size_t index) const {
  std::pair<uint64_t, int64_t> best{0, 0};
  const auto consider = [&](uint64_t key, std::span<const int32_t> ids) {
    const int64_t shared =
        std::min(common_prefix(ids, running_->own_ids), std::ssize(running_->own_ids) - 1);
    if (shared > best.second) best = {key, shared};
  };
  const auto context = contexts_.find(index);
  if (context != contexts_.end() && readings_.at(context->second).why.empty())
    consider(context->second, setup_.contexts[index].head_ids);
  if (const KeptStream* kept = conversations_.find(running_->question.conversation, index))
    consider(kept->key, kept->token_ids);
  return best;
}

// The stream with which a model takes part in the running request, if it has one.
const Reading* Coordinator::reading_of(size_t index) const {
  if (const auto aligned = running_->aligned.find(index); aligned != running_->aligned.end())
    return &readings_.at(aligned->second);
  const auto context = contexts_.find(index);
  return context == contexts_.end() ? nullptr : &readings_.at(context->second);
}

bool Coordinator::streams_open() const {
  const auto ready = [this](uint64_t key) {
    const Reading& reading = readings_.at(key);
    return reading.stream.has_value() || reading.complete;
  };
  for (const auto& [index, key] : contexts_)
    if (!ready(key)) return false;
  return std::ranges::all_of(running_->aligned,
                             [&](const auto& entry) { return ready(entry.second); });
}

// Takes the running request one step further, if it can go.
void Coordinator::proceed(std::vector<Outgoing>& out) {
  if (!running_) return;
  if (!running_->generating && !running_->done) start_generating(out);
  const auto complete = [this](uint64_t key) { return readings_.at(key).complete; };
  if (!running_->done || !std::ranges::all_of(running_->awaited, complete)) return;
  keep_streams(out);
  finish();
}

// What was computed for the answer stays with the conversation, or goes.
void Coordinator::keep_streams(std::vector<Outgoing>& out) {
  const RunningRequest& running = *running_;
  const uint64_t id = running.question.conversation;
  const std::vector<int32_t>& answered = running.done->token_ids;
  for (const auto& [index, key] : running.aligned) {
    Reading& reading = readings_.at(key);
    if (id != 0 && !answered.empty() && reading.why.empty())
      keep_stream(index, key, std::move(reading.token_ids), out);
    else
      out.emplace_back(model(index).name, DropStream{key});
    readings_.erase(key);
  }
  if (running.keep_key == 0 || answered.empty()) return;
  if (id == 0) {  // it was released meanwhile
    out.emplace_back(model(master_).name, DropStream{running.keep_key});
    return;
  }
  keep_stream(master_, running.keep_key, answered, out);
  if (conversations_.placed(id) == nullptr) conversations_.set_placed(id, running.placed);
  conversations_.touch(id);
}

void Coordinator::keep_stream(size_t index, uint64_t key, std::vector<int32_t> token_ids,
                              std::vector<Outgoing>& out) {
  const int64_t shared = common_prefix(setup_.contexts[index].head_ids, token_ids);
  const auto replaced = conversations_.keep(running_->question.conversation, index,
                                            {key, std::move(token_ids), shared / kKvBlockTokens});
  if (replaced) drop({*replaced}, out);
}

void Coordinator::start_generating(std::vector<Outgoing>& out) {
  if (const auto gone = gone_.find(model(master_).name); gone != gone_.end()) {
    if (gone->second.restarts) return;
    return end_early(fail(ErrorCode::kLost, fmt::format("the master is gone: {}", gone->second.why),
                          model(master_).name, "start the topology again"),
                     FinishReason::kError, out);
  }
  if (!streams_open()) return;
  auto request = generation();
  if (!request) return end_early(tl::unexpected<Error>(request.error()), FinishReason::kError, out);
  running_->generating = true;
  note_lost_slaves();
  out.emplace_back(model(master_).name, std::move(*request));
}

std::vector<Outgoing> Coordinator::read_opened(const std::string& name, const ReadOpened& opened) {
  std::vector<Outgoing> out;
  const auto found = readings_.find(opened.key);
  if (found == readings_.end() || model(found->second.model).name != name) return out;
  Reading& reading = found->second;
  if (opened.outcome.failed) {
    reading.why = opened.outcome.what;
    reading.complete = true;
  } else {
    reading.stream = opened.stream;
  }
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::read_done(const std::string& name, ReadDone done) {
  std::vector<Outgoing> out;
  const auto found = readings_.find(done.key);
  if (found == readings_.end() || model(found->second.model).name != name) return out;
  found->second.complete = true;
  if (done.outcome.failed) {
    found->second.why = done.outcome.what;
    if (running_) running_->reasons.emplace(name, done.outcome.what);
  }
  found->second.token_ids = std::move(done.token_ids);
  unreported_.push_back(std::move(done));
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::generate_done(GenerateDone done) {
  std::vector<Outgoing> out;
  if (!running_ || running_->question.request != done.request || running_->done ||
      running_->attempt != done.attempt)
    return out;
  running_->done = std::move(done);
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::peer_ended(const PeerLoss& loss) {
  std::vector<Outgoing> out;
  const size_t index = index_of(loss.name);
  if (index == setup_.spec.models.size()) return out;
  gone_[loss.name] = loss;
  if (running_) running_->reasons[loss.name] = loss.why;
  for (auto& [key, reading] : readings_)
    if (reading.model == index) {
      reading.complete = true;
      reading.why = loss.why;
    }
  conversations_.forget_model(index);
  if (running_ && running_->generating && !running_->done) {
    const int64_t token = std::ssize(loss.delivered.token_ids);
    if (index == master_)
      lose_master(loss, out);
    else
      running_->lost.insert({index, {loss.name, token, loss.why}});
  }
  if (index == master_) forget_context(index);
  proceed(out);
  return out;
}

// The answer waits for the next master, unless it was complete. A question that no master survives
// must not cost the launch all of its restarts.
void Coordinator::lose_master(const PeerLoss& loss, std::vector<Outgoing>& out) {
  const Delivered& delivered = loss.delivered;
  if (delivered.finished && delivered.reason != FinishReason::kError)
    return end_early({}, delivered.reason, out);
  const int64_t token = std::ssize(delivered.token_ids);
  const bool went_on = token > std::ssize(running_->generated);
  running_->at_this_token = went_on ? 1 : running_->at_this_token + 1;
  if (running_->at_this_token == kMostMastersForOneToken)
    return end_early(fail(ErrorCode::kLost,
                          fmt::format("{} masters ended at token {} of this answer: {}",
                                      kMostMastersForOneToken, token, loss.why),
                          loss.name, "ask something else; 'suture launch -v' shows its messages"),
                     FinishReason::kError, out);
  running_->generating = false;
  running_->keep_key = 0;
  ++running_->attempt;
  running_->generated = delivered.token_ids;
  running_->report.replayed.push_back({token, loss.why});
}

std::vector<Outgoing> Coordinator::cancel(uint64_t request) {
  std::vector<Outgoing> out;
  if (!running_ || running_->question.request != request || running_->done) return out;
  if (running_->generating)
    out.emplace_back(model(master_).name, CancelRequest{request});
  else
    end_early({}, FinishReason::kCancelled, out);
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::release(uint64_t conversation) {
  std::vector<Outgoing> out;
  if (running_ && running_->question.conversation == conversation)
    running_->question.conversation = 0;
  drop(conversations_.release(conversation), out);
  return out;
}

void Coordinator::end_early(const Status& why, FinishReason reason, std::vector<Outgoing>& out) {
  GenerateDone done;
  done.request = running_->question.request;
  done.reason = reason;
  done.outcome = Outcome::of(why);
  running_->done = std::move(done);
  for (const auto& [index, key] : running_->aligned)
    out.emplace_back(model(index).name, CancelRequest{key});
}

void Coordinator::finish() {
  AnswerReport report = std::move(running_->report);
  GenerateDone& done = *running_->done;
  report.outcome = done.outcome;
  report.reason = done.reason;
  for (Degraded& lost : done.degraded) {
    // The master sees that a stream ended; why it did is known here.
    const auto reason = running_->reasons.find(lost.slave);
    if (reason != running_->reasons.end()) lost.why = reason->second;
    report.degraded.push_back(std::move(lost));
  }
  std::ranges::move(done.spans, std::back_inserter(report.spans));
  std::map<std::string, ProcessFigures> by_name;
  if (!done.figures.name.empty()) by_name[done.figures.name] = done.figures;
  for (ReadDone& read : unreported_) {
    ProcessFigures& figures = by_name[read.figures.name];
    if (figures.name.empty())
      figures = read.figures;
    else
      figures.add(read.figures);
    std::ranges::move(read.spans, std::back_inserter(report.spans));
  }
  unreported_.clear();
  for (const ModelSpec& spec : setup_.spec.models)
    if (const auto found = by_name.find(spec.name); found != by_name.end())
      report.figures.push_back(found->second);
  report_ = std::move(report);
  running_.reset();
}

std::optional<AnswerReport> Coordinator::take_report() { return std::exchange(report_, {}); }

}  // namespace suture
