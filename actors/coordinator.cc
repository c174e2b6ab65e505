#include "actors/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>

#include "base/check.h"
#include "fusion/merge_plan.h"

namespace suture {
namespace {

// Context keys are even, request numbers (which a model is told to cancel by) are odd.
constexpr uint64_t kKeyStep = 2;

constexpr const char* kShorten = "raise max_seq_len in [bus], or ask for fewer tokens (-n)";
constexpr const char* kBeginAnew =
    "begin a new conversation (/clear in the chat), ask for fewer tokens (-n), or raise "
    "max_seq_len "
    "in [bus] where the model's own limit allows it";

}  // namespace

Coordinator::Coordinator(CoordinatorSetup setup) : setup_(std::move(setup)) {
  SUTURE_CHECK(setup_.contexts.size() == setup_.spec.models.size(), "contexts={} models={}",
               setup_.contexts.size(), setup_.spec.models.size());
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (model(i).role == Role::kMaster) master_ = i;
}

size_t Coordinator::index_of(const std::string& name) const {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (model(i).name == name) return i;
  return setup_.spec.models.size();
}

std::vector<Outgoing> Coordinator::joined(const std::string& name) {
  if (index_of(name) == setup_.spec.models.size()) return {};
  joined_.insert(name);
  if (!all_joined()) return {};
  std::vector<Outgoing> out;
  if (setup_.spec.warm_up) import_slabs(out);
  for (size_t i = 0; i < setup_.contexts.size(); ++i) {
    const std::vector<int32_t>& ids = setup_.contexts[i].head_ids;
    if (ids.empty()) continue;
    contexts_[i] = start_reading(i, {.token_ids = ids, .capacity = std::ssize(ids)}, out);
  }
  return out;
}

void Coordinator::import_slabs(std::vector<Outgoing>& out) const {
  ImportSlabs import;
  for (const ModelSpec& slave : setup_.spec.models)
    if (slave.role == Role::kSlave) import.owners.push_back(slave.name);
  if (!import.owners.empty()) out.emplace_back(model(master_).name, std::move(import));
}

uint64_t Coordinator::start_reading(size_t index, ReadRequest request, std::vector<Outgoing>& out) {
  request.key = next_key_++ * kKeyStep;
  request.request = running_ ? running_->question.request : 0;
  const uint64_t key = request.key;
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
  std::vector<Outgoing> out;
  if (const Status fits = check_length(); !fits)
    end_early(fits, FinishReason::kError, out);
  else
    start_followers(out);
  proceed(out);
  return out;
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
    if (setup_.contexts[i].other_vocabulary) request.text_of = model(master_).name;
    std::tie(request.head_key, request.head_entries) = read_before(i);
    const uint64_t key = start_reading(i, std::move(request), out);
    running.aligned[i] = key;
    running.awaited.insert(key);
  }
}

const Conversation* Coordinator::running_conversation() const {
  const auto found = conversations_.find(running_->question.conversation);
  return found == conversations_.end() ? nullptr : &found->second;
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
  if (const Conversation* conversation = running_conversation()) {
    const auto kept = conversation->streams.find(index);
    if (kept != conversation->streams.end()) consider(kept->second.key, kept->second.token_ids);
  }
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
      keep_stream(index, {key, std::move(reading.token_ids)}, out);
    else
      out.emplace_back(model(index).name, DropStream{key});
    readings_.erase(key);
  }
  if (running.keep_key == 0 || answered.empty()) return;
  if (id == 0) {  // it was released meanwhile
    out.emplace_back(model(master_).name, DropStream{running.keep_key});
    return;
  }
  keep_stream(master_, {running.keep_key, answered}, out);
  if (!conversations_[id].placed) conversations_[id].placed = running.placed;
}

void Coordinator::keep_stream(size_t index, KeptStream stream, std::vector<Outgoing>& out) {
  KeptStream& kept = conversations_[running_->question.conversation].streams[index];
  if (kept.key != 0) out.emplace_back(model(index).name, DropStream{kept.key});
  kept = std::move(stream);
}

void Coordinator::start_generating(std::vector<Outgoing>& out) {
  if (const auto gone = gone_.find(model(master_).name); gone != gone_.end())
    return end_early(fail(ErrorCode::kLost, fmt::format("the master is gone: {}", gone->second),
                          model(master_).name, "start the topology again"),
                     FinishReason::kError, out);
  if (!streams_open()) return;
  auto request = generation();
  if (!request) return end_early(tl::unexpected<Error>(request.error()), FinishReason::kError, out);
  running_->generating = true;
  note_lost_slaves();
  out.emplace_back(model(master_).name, std::move(*request));
}

std::vector<float> Coordinator::layer_gains(const FusionSpec& fusion) const {
  std::vector<float> gains(static_cast<size_t>(setup_.master_layers),
                           static_cast<float>(fusion.gain));
  if (!fusion.layer_gain.empty()) gains.assign(fusion.layer_gain.begin(), fusion.layer_gain.end());
  return gains;
}

Result<GenerateRequest> Coordinator::generation() {
  const Question& question = running_->question;
  MergeInput input;
  input.head_ids = setup_.contexts[master_].head_ids;
  input.tail_ids = question.tail_ids;
  input.max_new_tokens = question.max_tokens;
  input.max_positions = setup_.master_positions;
  input.n_layers = setup_.master_layers;
  input.stitch_until = setup_.spec.stitch_limit();
  std::vector<SourceLink> links;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (i != master_) SUTURE_RETURN_IF_ERROR(add_source(i, input, links));
  auto planned = plan_merge(input);
  if (!planned && question.conversation != 0) planned.error().remedy = kBeginAnew;
  SUTURE_ASSIGN_OR_RETURN(const MergePlan plan, std::move(planned));
  for (const PlannedSegment& segment : plan.segments)
    links[static_cast<size_t>(segment.source)].segments.push_back(segment);

  GenerateRequest request;
  request.request = question.request;
  std::tie(request.head_key, request.head_entries) = read_before(master_);
  if (question.conversation != 0) {
    running_->keep_key = next_key_++ * kKeyStep;
    request.keep_key = running_->keep_key;
  }
  request.token_ids = running_->own_ids;
  request.own = plan.own;
  request.first_new_position = plan.first_new_position;
  request.stitch_end = plan.stitch_end;
  std::erase_if(links, [](const SourceLink& link) { return link.stream.owner.empty(); });
  request.sources = std::move(links);
  request.max_tokens = question.max_tokens;
  request.end_ids = setup_.end_ids;
  request.sampling = question.sampling;
  request.ring = question.ring;
  return request;
}

// A slave that is not there any more keeps its place, with a link that has no stream.
Status Coordinator::add_source(size_t index, MergeInput& input, std::vector<SourceLink>& links) {
  const ModelSpec& slave = model(index);
  const bool must = slave.on_failure == OnFailure::kFail;
  const Reading* reading = reading_of(index);
  const bool there = reading != nullptr && reading->stream && reading->why.empty();
  if (!there && must)
    return fail(ErrorCode::kLost, "the slave cannot take part", slave.name,
                "on_failure = \"degrade\" goes on without it");
  const bool prefix = slave.fusion.position == SlavePosition::kPrefix;
  const Conversation* conversation = running_conversation();
  const bool begun = conversation != nullptr && conversation->placed;
  const bool placed = prefix && begun ? conversation->placed->contains(index) : there;
  if (!placed) return {};
  if (prefix) running_->placed.insert(index);
  const std::vector<float> gains = layer_gains(slave.fusion);
  const ModelContext& context = setup_.contexts[index];
  SourceLink link{slave.name,        there ? *reading->stream : StreamRef(), {}, must, {},
                  context.layer_map, context.other_vocabulary && !prefix};
  for (const float gain : gains) link.layer_gain_bits.push_back(std::bit_cast<uint32_t>(gain));
  links.push_back(std::move(link));
  input.sources.push_back({slave.name, slave.fusion.position, context.head_ids,
                           context.shared_tokens, gains, slave.fusion.lag});
  return {};
}

// Slaves that cannot take part from the start are reported like those lost on the way.
void Coordinator::note_lost_slaves() {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    if (i == master_) continue;
    const Reading* reading = reading_of(i);
    const auto gone = gone_.find(model(i).name);
    if (gone != gone_.end())
      running_->report.degraded.push_back({model(i).name, 0, gone->second});
    else if (reading != nullptr && !reading->why.empty())
      running_->report.degraded.push_back({model(i).name, 0, reading->why});
  }
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
  if (done.outcome.failed) found->second.why = done.outcome.what;
  found->second.token_ids = std::move(done.token_ids);
  unreported_.push_back(std::move(done));
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::generate_done(GenerateDone done) {
  std::vector<Outgoing> out;
  if (!running_ || running_->question.request != done.request || running_->done) return out;
  running_->done = std::move(done);
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::peer_ended(const std::string& name, const std::string& why) {
  std::vector<Outgoing> out;
  const size_t index = index_of(name);
  if (index == setup_.spec.models.size()) return out;
  gone_[name] = why;
  for (auto& [key, reading] : readings_)
    if (reading.model == index) {
      reading.complete = true;
      reading.why = why;
    }
  for (auto& [id, conversation] : conversations_) conversation.streams.erase(index);
  if (running_ && index == master_ && running_->generating && !running_->done)
    end_early(fail(ErrorCode::kLost, fmt::format("the master is gone: {}", why), name,
                   "start the topology again"),
              FinishReason::kError, out);
  proceed(out);
  return out;
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
  const auto found = conversations_.find(conversation);
  if (found == conversations_.end()) return out;
  for (const auto& [index, stream] : found->second.streams)
    out.emplace_back(model(index).name, DropStream{stream.key});
  conversations_.erase(found);
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
  std::ranges::move(done.degraded, std::back_inserter(report.degraded));
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
