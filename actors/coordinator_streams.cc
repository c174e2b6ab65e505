// What the coordinator does with K/V: what each request needs, which streams are read for it, and
// what is kept of it for the next turn of its conversation.
#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "actors/coordinator.h"
#include "actors/projected_streams.h"
#include "bus/slab.h"
#include "kernels/kv_layout.h"

namespace suture {

// K/V of the models in which the request has a stream of its own, as if nobody else had any.
std::vector<KvRoom> Coordinator::rooms_for(const RunningRequest& running) const {
  std::vector<KvRoom> rooms;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (i == master_ ? !running.question.hand_off
                     : reads_for_request(running, i) || drafts_for(running, i))
      rooms.push_back(room_for(running, i));
  return rooms;
}

const RequestText* Coordinator::text_of(const RunningRequest& running, size_t index) const {
  const auto& texts = running.question.texts;
  const auto found = std::ranges::find(texts, model(index).name, &RequestText::slave);
  return found == texts.end() ? nullptr : &*found;
}

std::span<const int32_t> Coordinator::prompt_of(const RunningRequest& running, size_t index) const {
  const RequestText* text = text_of(running, index);
  const std::span<const int32_t> whole = text != nullptr ? text->token_ids : running.own_ids;
  if (!model(index).transfers()) return whole;
  return whole.first(static_cast<size_t>(transfer_end(running)));
}

int64_t Coordinator::transfer_end(const RunningRequest& running) const {
  const ModelSpec* slave = transfer_slave();
  if (slave == nullptr) return 0;
  const int64_t prompt = std::ssize(running.own_ids) - running.question.scored_tokens;
  const int64_t end = prompt - slave->fusion.reread;
  return end > slave->fusion.sink ? end : 0;
}

// The model whose tokens it is given, where its own are others; empty = they are its own.
std::string Coordinator::text_owner(size_t index) const {
  const bool others =
      setup_.contexts[index].other_vocabulary && model(index).reads_masters_tokens();
  return others ? model(master_).name : std::string();
}

std::string Coordinator::rows_owner(size_t index) const {
  const std::string& name = model(index).name;
  const bool published_mapped = model(index).projects_in(ProjectorUse::kWriter);
  return published_mapped ? projected_owner(name, model(master_).name) : name;
}

bool Coordinator::reads_for_request(const RunningRequest& running, size_t index) const {
  if (is_left_out(index) || running.question.hand_off) return false;
  if (model(index).transfers()) return transfer_end(running) > 0;
  return model(index).is_slave_at(SlavePosition::kAligned) || text_of(running, index) != nullptr;
}

// A silent prefix slave still holds its place among the positions; an aligned one has none, and
// would only read and be waited for. Words are no rows.
bool Coordinator::is_left_out(size_t index) const {
  const ModelSpec& slave = model(index);
  if (slave.hands_over()) return true;
  return slave.is_slave_at(SlavePosition::kAligned) && slave.fusion.is_silent();
}

KvRoom Coordinator::room_for(const RunningRequest& running, size_t index) const {
  const LaunchSpec& spec = setup_.spec;
  const ModelContext& context = setup_.contexts[index];
  int64_t tokens = std::ssize(prompt_of(running, index));
  if (index == master_ || follows(running, index)) tokens += running.question.max_tokens;
  if (!text_owner(index).empty()) tokens = spec.max_seq_len;
  KvRoom room;
  room.model = index;
  // While an answer's stream is replaced by one of its exact length there are both; they share all
  // blocks but the last.
  if (index == master_ || reads_for_request(running, index)) {
    room.blocks_needed =
        kv_blocks_for(tokens) - read_before(running, index).second / kKvBlockTokens + 1;
    room.streams_needed = 2;
  }
  if (drafts_for(running, index)) {
    room.blocks_needed += draft_blocks(running, index);
    room.streams_needed += 1;
  }
  const int64_t context_tokens = reads_context(index) ? std::ssize(context.head_ids) : 0;
  room.blocks = spec.max_sequences * kv_blocks_for(spec.longest_sequence(model(index))) -
                kv_blocks_for(context_tokens);
  room.streams = spec.max_sequences * int64_t{kStreamsPerSequence} - 1;
  return room;
}

// Reserves K/V for the request. Silent conversations give way: their next turn reads its text
// again. False if others have to end first; one that is alone is tried in any case.
bool Coordinator::make_room(RunningRequest& running, std::vector<Outgoing>& out) {
  std::vector<KvRoom> rooms = rooms_for(running);
  running.reserved = rooms;
  std::set<uint64_t> busy = {running.question.conversation};
  bool alone = true;
  for (const auto& [id, other] : running_) {
    if (!other.begun) continue;
    alone = false;
    busy.insert(other.question.conversation);
    for (KvRoom& room : rooms) {
      const auto same = std::ranges::find(other.reserved, room.model, &KvRoom::model);
      if (same == other.reserved.end()) continue;
      room.blocks_needed += same->blocks_needed;
      room.streams_needed += same->streams_needed;
    }
  }
  if (!alone && !conversations_.can_make_room(rooms, busy)) return false;
  drop(conversations_.make_room(rooms, busy), out);
  return true;
}

void Coordinator::drop(const std::vector<DroppedStream>& streams,
                       std::vector<Outgoing>& out) const {
  for (const DroppedStream& stream : streams)
    out.emplace_back(model(stream.model).name, DropStream{stream.key});
}

void Coordinator::start_own_readings(RunningRequest& running, std::vector<Outgoing>& out) {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    if (!reads_for_request(running, i)) continue;
    if (const auto gone = gone_.find(model(i).name); gone != gone_.end()) {
      running.lost.insert({i, {model(i).name, 0, gone->second.why}});
      continue;
    }
    const uint64_t key = start_reading(i, own_reading(running, i), out);
    running.own_readings[i] = key;
    running.awaited.insert(key);
  }
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (drafts_for(running, i)) start_draft(running, i, out);
}

ReadRequest Coordinator::own_reading(const RunningRequest& running, size_t index) const {
  const std::span<const int32_t> prompt = prompt_of(running, index);
  ReadRequest request;
  request.token_ids.assign(prompt.begin(), prompt.end());
  request.capacity = std::ssize(prompt);
  request.request = running.question.request;
  std::tie(request.head_key, request.head_entries) = read_before(running, index);
  request.text_of = text_owner(index);
  if (model(index).is_slave_at(SlavePosition::kPrefix) || model(index).transfers()) return request;
  request.capacity += running.question.max_tokens;
  request.follow_ring = running.question.ring;
  if (text_of(running, index) == nullptr) request.answers = own_answers(running);
  return request;
}

// Earlier answers, in the master's whole text.
std::vector<AnswerRun> Coordinator::own_answers(const RunningRequest& running) const {
  std::vector<AnswerRun> answers = running.question.answers;
  const int64_t head = std::ssize(setup_.contexts[master_].head_ids);
  for (AnswerRun& answer : answers) answer = {answer.begin + head, answer.end + head};
  return answers;
}

// At least one token is left to read: its row gives the first logits. Where tokens are scored, so
// are they and the one before them.
std::pair<uint64_t, int64_t> Coordinator::read_before(const RunningRequest& running,
                                                      size_t index) const {
  // What is left of a text that was transferred is short, and stands elsewhere each time.
  if (index == master_ && transfer_end(running) > 0) return {0, 0};
  const std::span<const int32_t> prompt = prompt_of(running, index);
  int64_t most = std::ssize(prompt) - 1;
  if (index == master_)
    most = std::min(most - running.question.scored_tokens, draft_entry(running));
  std::pair<uint64_t, int64_t> best{0, 0};
  const auto consider = [&](uint64_t key, std::span<const int32_t> ids) {
    const int64_t shared = std::min(common_prefix(ids, prompt), most);
    if (shared > best.second) best = {key, shared};
  };
  const auto context = contexts_.find(index);
  if (context != contexts_.end()) {
    // The master waits for its own; a slave takes over what is there.
    const Reading& reading = readings_.at(context->second);
    if (reading.why.empty() && (index == master_ || reading.complete))
      consider(context->second, setup_.contexts[index].head_ids);
  }
  if (const KeptStream* kept = conversations_.find(running.question.conversation, index))
    consider(kept->key, kept->token_ids);
  return best;
}

const Reading* Coordinator::reading_of(const RunningRequest& running, size_t index) const {
  const auto own = running.own_readings.find(index);
  if (own != running.own_readings.end()) return &readings_.at(own->second);
  if (reads_for_request(running, index)) return nullptr;
  const auto context = contexts_.find(index);
  return context == contexts_.end() ? nullptr : &readings_.at(context->second);
}

// What was computed for the answer stays with the conversation, or goes.
void Coordinator::keep_streams(RunningRequest& running, std::vector<Outgoing>& out) {
  const uint64_t id = running.question.conversation;
  const std::vector<int32_t>& answered = running.done->token_ids;
  const bool transferred = transfer_end(running) > 0;
  const bool keeps = transferred ? !running.done->outcome.failed : !answered.empty();
  for (const auto& [index, key] : running.own_readings) {
    Reading& reading = readings_.at(key);
    if (id != 0 && keeps && reading.why.empty())
      keep_stream(running, index, key, std::move(reading.token_ids), out);
    else
      out.emplace_back(model(index).name, DropStream{key});
    readings_.erase(key);
  }
  if (running.keep_key == 0 || answered.empty()) return;
  if (id == 0) {  // it was released meanwhile
    out.emplace_back(model(master_).name, DropStream{running.keep_key});
    return;
  }
  // A draft is for one answer: the next turn goes on from what did not see it.
  std::vector<int32_t> history = answered;
  history.resize(std::min(history.size(), static_cast<size_t>(draft_entry(running))));
  keep_stream(running, master_, running.keep_key, std::move(history), out);
  if (conversations_.placed(id) == nullptr) conversations_.set_placed(id, running.placed);
  conversations_.touch(id);
}

void Coordinator::keep_stream(const RunningRequest& running, size_t index, uint64_t key,
                              std::vector<int32_t> token_ids, std::vector<Outgoing>& out) {
  const int64_t shared = common_prefix(setup_.contexts[index].head_ids, token_ids);
  const auto replaced = conversations_.keep(running.question.conversation, index,
                                            {key, std::move(token_ids), shared / kKvBlockTokens});
  if (replaced) drop({*replaced}, out);
}

}  // namespace suture
