// What models keep of conversations between two turns: streams that the next turn goes on from.
// They are a cache: when K/V is short, those of the conversation that was silent longest go, and
// its next turn reads its text again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace suture {

// A stream that a model keeps.
struct KeptStream {
  uint64_t key = 0;
  std::vector<int32_t> token_ids;  // of its entries
  int64_t shared_blocks = 0;       // of these, those that belong to the model's context as well
};

struct DroppedStream {
  size_t model = 0;
  uint64_t key = 0;

  bool operator==(const DroppedStream&) const = default;
};

// K/V of one model, in blocks of 32 tokens and in streams.
struct KvRoom {
  size_t model = 0;
  int64_t blocks_needed = 0;   // by requests that run or come
  int64_t streams_needed = 0;  // too
  int64_t blocks = 0;          // of the slab, less those of contexts
  int64_t streams = 0;         // likewise
};

class ConversationStore {
 public:
  // The stream of that model's last turn; nothing if it has none.
  const KeptStream* find(uint64_t conversation, size_t model) const;
  // Returns what it takes the place of.
  std::optional<DroppedStream> keep(uint64_t conversation, size_t model, KeptStream stream);

  // The prefix slaves that have a place in the master's positions, from the first turn on: rows
  // that were computed stay where they are, whoever is lost.
  const std::set<size_t>* placed(uint64_t conversation) const;
  void set_placed(uint64_t conversation, const std::set<size_t>& placed);

  // A turn of it begins.
  void touch(uint64_t conversation);
  std::vector<DroppedStream> release(uint64_t conversation);
  // The process is gone, and its streams with it.
  void forget_model(size_t model);

  // Lets go of streams of conversations that are not `busy` until every model has room, or none is
  // left.
  std::vector<DroppedStream> make_room(std::span<const KvRoom> rooms,
                                       const std::set<uint64_t>& busy);
  // Whether every model has room then.
  bool can_make_room(std::span<const KvRoom> rooms, const std::set<uint64_t>& busy) const;

 private:
  struct Conversation {
    std::map<size_t, KeptStream> streams;  // model -> its stream of the last turn
    std::optional<std::set<size_t>> placed;
    uint64_t last_turn = 0;
  };

  // Of the conversations that `counts`.
  bool has_room(const KvRoom& room, const std::function<bool(uint64_t)>& counts) const;
  static std::vector<DroppedStream> drop_streams(Conversation& conversation);

  std::map<uint64_t, Conversation> conversations_;
  uint64_t turns_ = 0;
};

}  // namespace suture
