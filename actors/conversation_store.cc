#include "actors/conversation_store.h"

#include <algorithm>
#include <utility>

#include "kernels/kv_layout.h"

namespace suture {

const KeptStream* ConversationStore::find(uint64_t conversation, size_t model) const {
  const auto found = conversations_.find(conversation);
  if (found == conversations_.end()) return nullptr;
  const auto stream = found->second.streams.find(model);
  return stream == found->second.streams.end() ? nullptr : &stream->second;
}

std::optional<DroppedStream> ConversationStore::keep(uint64_t conversation, size_t model,
                                                     KeptStream stream) {
  KeptStream& kept = conversations_[conversation].streams[model];
  const uint64_t before = std::exchange(kept, std::move(stream)).key;
  if (before == 0) return std::nullopt;
  return DroppedStream{model, before};
}

const std::set<size_t>* ConversationStore::placed(uint64_t conversation) const {
  const auto found = conversations_.find(conversation);
  if (found == conversations_.end() || !found->second.placed) return nullptr;
  return &*found->second.placed;
}

void ConversationStore::set_placed(uint64_t conversation, const std::set<size_t>& placed) {
  conversations_[conversation].placed = placed;
}

void ConversationStore::touch(uint64_t conversation) {
  if (const auto found = conversations_.find(conversation); found != conversations_.end())
    found->second.last_turn = ++turns_;
}

std::vector<DroppedStream> ConversationStore::release(uint64_t conversation) {
  auto found = conversations_.extract(conversation);
  return found.empty() ? std::vector<DroppedStream>() : drop_streams(found.mapped());
}

void ConversationStore::forget_model(size_t model) {
  for (auto& [id, conversation] : conversations_) conversation.streams.erase(model);
}

std::vector<DroppedStream> ConversationStore::make_room(std::span<const KvRoom> rooms,
                                                        const std::set<uint64_t>& busy) {
  const auto all = [](uint64_t) { return true; };
  std::vector<DroppedStream> dropped;
  while (!std::ranges::all_of(rooms, [&](const KvRoom& room) { return has_room(room, all); })) {
    Conversation* oldest = nullptr;
    for (auto& [id, other] : conversations_)
      if (!busy.contains(id) && !other.streams.empty() &&
          (oldest == nullptr || other.last_turn < oldest->last_turn))
        oldest = &other;
    if (oldest == nullptr) break;
    std::ranges::move(drop_streams(*oldest), std::back_inserter(dropped));
  }
  return dropped;
}

bool ConversationStore::can_make_room(std::span<const KvRoom> rooms,
                                      const std::set<uint64_t>& busy) const {
  const auto stays = [&](uint64_t conversation) { return busy.contains(conversation); };
  return std::ranges::all_of(rooms, [&](const KvRoom& room) { return has_room(room, stays); });
}

bool ConversationStore::has_room(const KvRoom& room,
                                 const std::function<bool(uint64_t)>& counts) const {
  int64_t blocks = room.blocks_needed;
  int64_t streams = room.streams_needed;
  for (const auto& [id, conversation] : conversations_) {
    const auto kept = conversation.streams.find(room.model);
    if (kept == conversation.streams.end() || !counts(id)) continue;
    blocks += kv_blocks_for(std::ssize(kept->second.token_ids)) - kept->second.shared_blocks;
    ++streams;
  }
  return blocks <= room.blocks && streams <= room.streams;
}

std::vector<DroppedStream> ConversationStore::drop_streams(Conversation& conversation) {
  std::vector<DroppedStream> dropped;
  for (const auto& [model, stream] : conversation.streams) dropped.push_back({model, stream.key});
  conversation.streams.clear();
  return dropped;
}

}  // namespace suture
