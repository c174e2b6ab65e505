// A reader: attaches to streams, new and stale ones, and checks every committed byte of them under
// its lease; reads the tokens of one owner.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "bench/torture/child.h"
#include "bench/torture/rows.h"
#include "bus/token_ring.h"

namespace suture::torture {
namespace {

constexpr size_t kRemembered = 64;

class Reader {
 public:
  explicit Reader(Child child) : child_(std::move(child)) {
    for (auto& mapped : child_.mine().mapped) mapped = 0;
  }

  void work() {
    while (true) {
      child_.obey([&](Phase phase) {
        if (phase == Phase::kCount) renew_all();
      });
      for (int owner = 0; owner < kOwners; ++owner) notice_loss(owner);
      read_one(static_cast<int>(child_.draw(kOwners)));
      if (ring_owner() < kOwners) read_tokens();
      child_.step();
    }
  }

 private:
  ChildData& owner_data(int owner) { return child_.board().children[static_cast<size_t>(owner)]; }
  std::shared_ptr<SlabView>& view(int owner) { return views_[static_cast<size_t>(owner)]; }
  int ring_owner() const { return child_.index() - kOwners; }

  void notice_loss(int owner) {
    if (view(owner) != nullptr && view(owner)->owner_lost())
      child_.tell_event(child_.mine().lost[static_cast<size_t>(owner)], view(owner)->owner());
  }

  // So that what is mapped can be counted: the present owners' slabs and one ring, no others.
  void renew_all() {
    for (int owner = 0; owner < kOwners; ++owner) renew_view(owner);
    if (ring_owner() < kOwners && !ring_) open_ring(owner_data(ring_owner()));
  }

  bool renew_view(int owner) {
    auto found = child_.client().slab(child_name(owner));
    if (!found) {
      child_.count_error(found.error(), {ErrorCode::kNotFound});
      return false;
    }
    notice_loss(owner);  // of the one that is dropped
    view(owner) = std::move(*found);
    child_.mine().mapped[static_cast<size_t>(owner)] = view(owner)->owner().value;
    return true;
  }

  std::optional<StreamRef> choose(int owner) {
    if (child_.chance(20)) {
      const StreamRef old = remembered_[static_cast<size_t>(child_.draw(kRemembered))];
      if (!old.owner.valid()) return std::nullopt;
      ++child_.counts().stale_tries;
      return old;
    }
    const auto ref = read_ref(owner_data(owner).refs[static_cast<size_t>(child_.draw(kRefs))]);
    if (ref) remembered_[next_remembered_++ % kRemembered] = *ref;
    return ref;
  }

  void read_one(int owner) {
    const auto ref = choose(owner);
    if (!ref) return;
    // A reference to a dead incarnation is tried on the present one's slab: it must know better.
    const bool unseen = view(owner) == nullptr || view(owner)->owner() < ref->owner;
    if (unseen && !renew_view(owner)) return;
    auto reader = view(owner)->attach(ref->id);
    if (!reader) {
      child_.count_error(reader.error(),
                         {ErrorCode::kStaleGeneration, ErrorCode::kClosed, ErrorCode::kLost});
      notice_loss(owner);
      return;
    }
    ++child_.counts().attaches;
    for (int64_t pass = child_.draw(3); pass >= 0; --pass) {
      check(*reader, *ref, owner);
      if (pass > 0) follow(*reader, owner);
    }
  }

  void check(const StreamReader& reader, const StreamRef& ref, int owner) {
    uint64_t wrong = wrong_epoch_bytes(reader, ref, reader.committed(0));
    int64_t rows = 0;
    for (int32_t layer = 0; layer < reader.n_layers(); ++layer) {
      const int64_t end = reader.committed(layer);
      wrong += wrong_bytes(reader, ref, layer, end);
      rows += end;
    }
    child_.counts().rows += static_cast<uint64_t>(rows);
    child_.count_wrong(wrong, fmt::format("stream {} of slot {} of peer {}", ref.id.generation,
                                          ref.id.slot, ref.owner.value));
    child_.tell_event(child_.mine().first_check, child_.self());
    if (rows > 0)
      child_.tell_event(child_.mine().first_rows[static_cast<size_t>(owner)], view(owner)->owner());
  }

  // Waits for more rows of the stream.
  void follow(StreamReader& reader, int owner) {
    const auto layer = static_cast<int32_t>(child_.draw(reader.n_layers()));
    const int64_t target =
        std::min(reader.capacity(), reader.committed(layer) + 1 + child_.draw(16));
    for (const Status& status :
         {reader.wait(layer, target, child_.wait_bound()), reader.begin_step()}) {
      if (!status) child_.count_error(status.error(), {ErrorCode::kClosed, ErrorCode::kLost});
    }
    notice_loss(owner);
  }

  void read_tokens() {
    ChildData& owner = owner_data(ring_owner());
    if (!ring_ && !open_ring(owner)) return;
    for (int i = 0; i < 24; ++i) {
      auto token = child_.chance(10) ? ring_->wait_next(deadline_in(std::chrono::microseconds(100)))
                                     : ring_->try_next();
      if (!token) child_.count_error(token.error(), {ErrorCode::kTimeout, ErrorCode::kLost});
      if (!token && token.error().code == ErrorCode::kTimeout) break;
      if (!token || !*token) return leave_ring();
      const uint64_t index = owner.ring_consumed.load(std::memory_order_relaxed);
      const bool right = (*token)->id == token_id(ring_owner(), index);
      child_.count_wrong(right ? 0 : sizeof(int32_t), fmt::format("token {}", index));
      ++child_.counts().tokens;
      owner.ring_consumed.store(index + 1, std::memory_order_release);
    }
    ring_->ring()->grant(ring_->cursor() + ring_->ring()->capacity());
  }

  // The ring goes on where all the tokens read so far end, whoever has read them.
  bool open_ring(ChildData& owner) {
    auto fd = child_.client().ring(ring_name(ring_owner()));
    auto ring = fd.and_then([](const UniqueFd& found) { return TokenRing::attach(found.get()); });
    if (!ring) {
      child_.count_error(ring.error(), {ErrorCode::kNotFound});
      return false;
    }
    struct stat info {};
    ::fstat(fd->get(), &info);
    const uint64_t consumed = owner.ring_consumed.load(std::memory_order_acquire);
    if (owner.ring_file.load(std::memory_order_acquire) != info.st_ino) {
      owner.ring_start.store(consumed, std::memory_order_relaxed);  // published by ring_file
      owner.ring_file.store(info.st_ino, std::memory_order_release);
    }
    ring_.emplace(*ring, consumed - owner.ring_start.load(std::memory_order_relaxed));
    (*ring)->grant(ring_->cursor() + (*ring)->capacity());
    return true;
  }

  // Finished or lost: in both cases after the last token that was pushed.
  void leave_ring() {
    const uint64_t missing = ring_->ring()->produced() - ring_->cursor();
    child_.count_wrong(missing * sizeof(int32_t), "tokens at the end of a ring");
    ring_.reset();
  }

  Child child_;
  std::array<std::shared_ptr<SlabView>, kOwners> views_;
  std::array<StreamRef, kRemembered> remembered_;
  size_t next_remembered_ = 0;
  std::optional<TokenRingReader> ring_;
};

}  // namespace

int run_reader(Child child) {
  Reader(std::move(child)).work();
  return 1;
}

}  // namespace suture::torture
