#include "actors/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace suture {
namespace {

// Context keys are even, request numbers (which a model is told to cancel by) are odd.
constexpr uint64_t kKeyStep = 2;

constexpr int kMostMastersForOneToken = 3;

Delivered delivered_to(const PeerLoss& loss, uint64_t request) {
  const auto found = std::ranges::find(loss.delivered, request, &Delivered::request);
  return found == loss.delivered.end() ? Delivered{.request = request} : *found;
}

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

const ModelSpec* Coordinator::transfer_slave() const {
  const auto slave = std::ranges::find_if(setup_.spec.models, &ModelSpec::transfers);
  return slave == setup_.spec.models.end() ? nullptr : &*slave;
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
    if (model(i).role == Role::kSlave && !model(i).hands_over())
      import.owners.push_back(rows_owner(i));
  if (!import.owners.empty()) out.emplace_back(model(master_).name, std::move(import));
}

void Coordinator::read_context(size_t index, std::vector<Outgoing>& out) {
  forget_context(index);
  const std::vector<int32_t>& ids = setup_.contexts[index].head_ids;
  if (ids.empty() || !reads_context(index)) return;
  ReadRequest request;
  request.token_ids = ids;
  request.capacity = std::ssize(ids);
  request.text_of = text_owner(index);
  contexts_[index] = start_reading(index, std::move(request), out);
}

void Coordinator::forget_context(size_t index) {
  const auto context = contexts_.extract(index);
  if (context.empty()) return;
  readings_.erase(context.mapped());
  for (auto& [id, running] : running_) running.awaited.erase(context.mapped());
}

uint64_t Coordinator::start_reading(size_t index, ReadRequest request, std::vector<Outgoing>& out) {
  const uint64_t key = new_key();
  request.key = key;
  readings_[key].model = index;
  readings_[key].request = request.request;
  out.emplace_back(model(index).name, std::move(request));
  return key;
}

RunningRequest* Coordinator::find(uint64_t request) {
  const auto found = running_.find(request);
  return found == running_.end() ? nullptr : &found->second;
}

std::vector<Outgoing> Coordinator::ask(Question question) {
  SUTURE_CHECK(!running_.contains(question.request), "request {} runs already", question.request);
  RunningRequest& running = running_[question.request];
  running.question = std::move(question);
  running.report.request = running.question.request;
  // Words come from whoever has read; nobody waits for what others read.
  for (const auto& [index, key] : contexts_)
    if (!readings_[key].complete && !running.question.hand_off && !model(index).hands_over())
      running.awaited.insert(key);

  running.own_ids = setup_.contexts[master_].head_ids;
  running.own_ids.insert(running.own_ids.end(), running.question.tail_ids.begin(),
                         running.question.tail_ids.end());
  running.report.prompt_tokens = std::ssize(running.own_ids);
  conversations_.touch(running.question.conversation);
  std::vector<Outgoing> out;
  Status possible;
  if (!running.question.hand_off) possible = check_length(running);
  if (possible && !running.question.hand_off) possible = check_texts(running);
  if (!possible) end_early(running, possible, FinishReason::kError, out);
  proceed(out);
  return out;
}

Status Coordinator::check_length(const RunningRequest& running) const {
  const int64_t prompt = std::ssize(running.own_ids);
  const int64_t total = prompt + running.question.max_tokens;
  if (total <= setup_.spec.max_seq_len) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} tokens are needed ({} to read, {} to generate), max_seq_len is {}",
                          total, prompt, running.question.max_tokens, setup_.spec.max_seq_len),
              "request", running.question.conversation == 0 ? kShorten : kBeginAnew);
}

// Aligned entries stand where the master's tokens stand, so a text of another length or in other
// tokens would put them elsewhere.
Status Coordinator::check_texts(const RunningRequest& running) const {
  const int64_t scored = running.question.scored_tokens;
  if (scored < 0 || scored >= std::ssize(running.own_ids))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens to score of {}", scored, running.own_ids.size()), "request");
  for (const RequestText& text : running.question.texts) {
    const size_t index = index_of(text.slave);
    if (index == setup_.spec.models.size() || index == master_)
      return fail(ErrorCode::kInvalidArgument, "there is no such slave", text.slave);
    const bool aligned = model(index).is_slave_at(SlavePosition::kAligned);
    const bool as_text = setup_.contexts[index].other_vocabulary && !model(index).transfers();
    if (aligned && (as_text || text.token_ids.size() != running.own_ids.size()))
      return fail(ErrorCode::kInvalidArgument,
                  "an aligned slave can read another text only if it is as long as the master's, "
                  "in the same vocabulary",
                  text.slave);
    if (text.token_ids.empty() || std::ssize(text.token_ids) > setup_.spec.max_seq_len)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} tokens to read, max_seq_len is {}", text.token_ids.size(),
                              setup_.spec.max_seq_len),
                  text.slave, "raise max_seq_len in [bus] or shorten the documents");
  }
  return {};
}

bool Coordinator::streams_open(const RunningRequest& running) const {
  const auto ready = [this](uint64_t key) {
    const Reading& reading = readings_.at(key);
    return reading.stream.has_value() || reading.complete;
  };
  for (const auto& [index, key] : contexts_)
    if (!model(index).hands_over() && !ready(key)) return false;
  const auto complete = [this](const auto& entry) { return readings_.at(entry.second).complete; };
  return std::ranges::all_of(running.own_readings,
                             [&](const auto& entry) { return ready(entry.second); }) &&
         std::ranges::all_of(running.drafts, complete);
}

void Coordinator::proceed(std::vector<Outgoing>& out) {
  do {
    begin_waiting(out);
    for (auto& [id, running] : running_)
      if (running.begun && !running.generating && !running.done) start_generating(running, out);
  } while (finish_complete(out));  // which makes room for others
}

// Nobody overtakes one that waits: it would never have its turn.
void Coordinator::begin_waiting(std::vector<Outgoing>& out) {
  for (auto& [id, running] : running_) {
    if (running.begun || running.done) continue;
    if (!make_room(running, out)) return;
    running.begun = true;
    start_own_readings(running, out);
  }
}

// True if some request has ended.
bool Coordinator::finish_complete(std::vector<Outgoing>& out) {
  const auto complete = [this](uint64_t key) { return readings_.at(key).complete; };
  const size_t before = running_.size();
  for (auto next = running_.begin(); next != running_.end();) {
    RunningRequest& running = next->second;
    if (!running.done || !std::ranges::all_of(running.awaited, complete)) {
      ++next;
      continue;
    }
    drop_drafts(running, out);
    keep_streams(running, out);
    reports_.push_back(report_of(running));
    next = running_.erase(next);
  }
  return running_.size() < before;
}

// A request with which masters have ended again and again runs by itself: it may be the cause, and
// those beside it must not be counted out with it.
bool Coordinator::must_wait_for_others(const RunningRequest& running) const {
  const auto suspect = [](const RunningRequest& request) {
    return request.at_this_token == kMostMastersForOneToken - 1;
  };
  return std::ranges::any_of(running_, [&](const auto& entry) {
    const RunningRequest& other = entry.second;
    return &other != &running && other.at_work() && (suspect(running) || suspect(other));
  });
}

void Coordinator::start_generating(RunningRequest& running, std::vector<Outgoing>& out) {
  if (running.question.hand_off) return finish_hand_off(running);
  if (const auto gone = gone_.find(model(master_).name); gone != gone_.end()) {
    if (gone->second.restarts) return;
    return end_early(running,
                     fail(ErrorCode::kLost, fmt::format("the master is gone: {}", gone->second.why),
                          model(master_).name, "start the topology again"),
                     FinishReason::kError, out);
  }
  if (!streams_open(running) || must_wait_for_others(running)) return;
  auto request = generation(running);
  if (!request)
    return end_early(running, tl::unexpected<Error>(request.error()), FinishReason::kError, out);
  running.generating = true;
  note_lost_slaves(running);
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
  Reading& reading = found->second;
  reading.complete = true;
  RunningRequest* follows = find(reading.request);
  if (done.outcome.failed) {
    reading.why = done.outcome.what;
    for (auto& [id, running] : running_)
      if (reading.request == 0 || &running == follows)
        running.reasons.emplace(name, done.outcome.what);
  } else {
    reading.draft = std::move(done.draft);
  }
  reading.token_ids = std::move(done.token_ids);
  (follows != nullptr ? follows->reads : unreported_).push_back(std::move(done));
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::generate_done(GenerateDone done) {
  std::vector<Outgoing> out;
  RunningRequest* running = find(done.request);
  if (running == nullptr || running->done || running->attempt != done.attempt) return out;
  running->done = std::move(done);
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::peer_ended(const PeerLoss& loss) {
  std::vector<Outgoing> out;
  const size_t index = index_of(loss.name);
  if (index == setup_.spec.models.size()) return out;
  gone_[loss.name] = loss;
  for (auto& [key, reading] : readings_)
    if (reading.model == index) {
      reading.complete = true;
      reading.why = loss.why;
    }
  conversations_.forget_model(index);
  for (auto& [id, running] : running_) {
    running.reasons[loss.name] = loss.why;
    if (!running.at_work()) continue;
    if (index == master_)
      lose_master(running, loss, out);
    else
      running.lost.insert(
          {index, {loss.name, std::ssize(delivered_to(loss, id).token_ids), loss.why}});
  }
  if (index == master_) forget_context(index);
  proceed(out);
  return out;
}

// The answer waits for the next master, unless it was complete. A question that no master survives
// must not cost the launch all of its restarts.
void Coordinator::lose_master(RunningRequest& running, const PeerLoss& loss,
                              std::vector<Outgoing>& out) {
  const Delivered delivered = delivered_to(loss, running.question.request);
  if (delivered.finished && delivered.reason != FinishReason::kError)
    return end_early(running, {}, delivered.reason, out);
  const int64_t token = std::ssize(delivered.token_ids);
  const bool went_on = token > std::ssize(running.generated);
  running.at_this_token = went_on ? 1 : running.at_this_token + 1;
  if (running.at_this_token == kMostMastersForOneToken)
    return end_early(running,
                     fail(ErrorCode::kLost,
                          fmt::format("{} masters ended at token {} of this answer: {}",
                                      kMostMastersForOneToken, token, loss.why),
                          loss.name, "ask something else; 'suture launch -v' shows its messages"),
                     FinishReason::kError, out);
  running.generating = false;
  running.keep_key = 0;
  ++running.attempt;
  running.generated = delivered.token_ids;
  running.report.replayed.push_back({token, loss.why});
  // What it went on from is gone, and takes no room of its own any more.
  running.reserved = rooms_for(running);
}

std::vector<Outgoing> Coordinator::cancel(uint64_t request) {
  std::vector<Outgoing> out;
  RunningRequest* running = find(request);
  if (running == nullptr || running->done) return out;
  if (!running->generating) {
    if (running->question.hand_off) note_silent(*running);
    end_early(*running, {}, FinishReason::kCancelled, out);
  } else {
    out.emplace_back(model(master_).name, CancelRequest{request});
    // Who follows the answer ends with it.
    for (const auto& [index, key] : running->own_readings)
      if (!follows(*running, index)) out.emplace_back(model(index).name, CancelRequest{key});
  }
  proceed(out);
  return out;
}

std::vector<Outgoing> Coordinator::release(uint64_t conversation) {
  std::vector<Outgoing> out;
  for (auto& [id, running] : running_)
    if (running.question.conversation == conversation) running.question.conversation = 0;
  drop(conversations_.release(conversation), out);
  return out;
}

void Coordinator::end_early(RunningRequest& running, const Status& why, FinishReason reason,
                            std::vector<Outgoing>& out) const {
  GenerateDone done;
  done.request = running.question.request;
  done.reason = reason;
  done.outcome = Outcome::of(why);
  running.done = std::move(done);
  cancel_readings(running, out);
}

AnswerReport Coordinator::report_of(RunningRequest& running) {
  AnswerReport report = std::move(running.report);
  GenerateDone& done = *running.done;
  report.outcome = done.outcome;
  report.reason = done.reason;
  report.scores = std::move(done.scores);
  report.attention = std::move(done.attention);
  for (Degraded& lost : done.degraded) {
    // The master sees that a stream ended; why it did is known here.
    const auto reason = running.reasons.find(lost.slave);
    if (reason != running.reasons.end()) lost.why = reason->second;
    report.degraded.push_back(std::move(lost));
  }
  std::ranges::move(done.spans, std::back_inserter(report.spans));
  std::map<std::string, ProcessFigures> by_name;
  if (!done.figures.name.empty()) by_name[done.figures.name] = done.figures;
  std::ranges::move(std::exchange(unreported_, {}), std::back_inserter(running.reads));
  for (ReadDone& read : running.reads) {
    ProcessFigures& figures = by_name[read.figures.name];
    if (figures.name.empty())
      figures = read.figures;
    else
      figures.add(read.figures);
    std::ranges::move(read.spans, std::back_inserter(report.spans));
  }
  for (const ModelSpec& spec : setup_.spec.models)
    if (const auto found = by_name.find(spec.name); found != by_name.end())
      report.figures.push_back(found->second);
  return report;
}

std::optional<AnswerReport> Coordinator::take_report() {
  if (reports_.empty()) return std::nullopt;
  AnswerReport report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

}  // namespace suture
