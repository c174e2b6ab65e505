// What the coordinator does with K/V: what each request needs, which streams are read for it, and
// what is kept of it for the next turn of its conversation.
#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "actors/coordinator.h"
#include "bus/slab.h"
#include "kernels/kv_layout.h"

namespace suture {

// K/V of the models in which the request has a stream of its own, as if nobody else had any.
std::vector<KvRoom> Coordinator::rooms_for(const RunningRequest& running) const {
  std::vector<KvRoom> rooms;
  for (size_t i = 0; i < setup_.spec.models.size(); ++i)
    if (i == master_ || model(i).fusion.position == SlavePosition::kAligned)
      rooms.push_back(room_for(running, i));
  return rooms;
}

KvRoom Coordinator::room_for(const RunningRequest& running, size_t index) const {
  const LaunchSpec& spec = setup_.spec;
  const ModelContext& context = setup_.contexts[index];
  const int64_t own = std::ssize(running.own_ids) + running.question.max_tokens;
  const int64_t tokens = context.other_vocabulary ? spec.max_seq_len : own;
  KvRoom room;
  room.model = index;
  // While an answer's stream is replaced by one of its exact length there are both; they share all
  // blocks but the last.
  room.blocks_needed =
      kv_blocks_for(tokens) - read_before(running, index).second / kKvBlockTokens + 1;
  room.streams_needed = 2;
  room.blocks = spec.max_sequences * kv_blocks_for(spec.max_seq_len) -
                kv_blocks_for(std::ssize(context.head_ids));
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
    for (size_t i = 0; i < rooms.size(); ++i) {
      rooms[i].blocks_needed += other.reserved[i].blocks_needed;
      rooms[i].streams_needed += other.reserved[i].streams_needed;
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

void Coordinator::start_followers(RunningRequest& running, std::vector<Outgoing>& out) {
  for (size_t i = 0; i < setup_.spec.models.size(); ++i) {
    const bool aligned = i != master_ && model(i).fusion.position == SlavePosition::kAligned;
    if (!aligned || gone_.contains(model(i).name)) continue;
    ReadRequest request;
    request.token_ids = running.own_ids;
    request.capacity = std::ssize(running.own_ids) + running.question.max_tokens;
    request.follow_ring = running.question.ring;
    request.request = running.question.request;
    request.answers = own_answers(running);
    if (setup_.contexts[i].other_vocabulary) request.text_of = model(master_).name;
    std::tie(request.head_key, request.head_entries) = read_before(running, i);
    const uint64_t key = start_reading(i, std::move(request), out);
    running.aligned[i] = key;
    running.awaited.insert(key);
  }
}

// Earlier answers, in the master's whole text.
std::vector<AnswerRun> Coordinator::own_answers(const RunningRequest& running) const {
  std::vector<AnswerRun> answers = running.question.answers;
  const int64_t head = std::ssize(setup_.contexts[master_].head_ids);
  for (AnswerRun& answer : answers) answer = {answer.begin + head, answer.end + head};
  return answers;
}

// At least one token is left to read: its row gives the first logits.
std::pair<uint64_t, int64_t> Coordinator::read_before(const RunningRequest& running,
                                                      size_t index) const {
  std::pair<uint64_t, int64_t> best{0, 0};
  const auto consider = [&](uint64_t key, std::span<const int32_t> ids) {
    const int64_t shared =
        std::min(common_prefix(ids, running.own_ids), std::ssize(running.own_ids) - 1);
    if (shared > best.second) best = {key, shared};
  };
  const auto context = contexts_.find(index);
  if (context != contexts_.end() && readings_.at(context->second).why.empty())
    consider(context->second, setup_.contexts[index].head_ids);
  if (const KeptStream* kept = conversations_.find(running.question.conversation, index))
    consider(kept->key, kept->token_ids);
  return best;
}

const Reading* Coordinator::reading_of(const RunningRequest& running, size_t index) const {
  if (const auto aligned = running.aligned.find(index); aligned != running.aligned.end())
    return &readings_.at(aligned->second);
  const auto context = contexts_.find(index);
  return context == contexts_.end() ? nullptr : &readings_.at(context->second);
}

// What was computed for the answer stays with the conversation, or goes.
void Coordinator::keep_streams(RunningRequest& running, std::vector<Outgoing>& out) {
  const uint64_t id = running.question.conversation;
  const std::vector<int32_t>& answered = running.done->token_ids;
  for (const auto& [index, key] : running.aligned) {
    Reading& reading = readings_.at(key);
    if (id != 0 && !answered.empty() && reading.why.empty())
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
  keep_stream(running, master_, running.keep_key, answered, out);
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
